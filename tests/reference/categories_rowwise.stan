// Shares of categories with effects of PSUs and strata, one term a record, shares and effects explicit.
// The reference for stan/categories.stan.
data {
  int<lower=0> n;
  int<lower=1> G;
  int<lower=2> K;
  int<lower=1> C;
  int<lower=1> H;
  int<lower=1, upper=2> levels;
  array[n] int<lower=1, upper=G> cell;
  array[n] int<lower=1, upper=K> category;
  array[n] int<lower=1, upper=C> psu;
  array[C] int<lower=1, upper=H> stratum;
  vector<lower=0, upper=1>[n] alpha;
}
parameters {
  array[G] simplex[K] p;
  vector<lower=0>[levels] sigma;
  array[C] vector[K] z_u;
  array[levels > 1 ? H : 0] vector[K] z_v;
}
transformed parameters {
  matrix[C, K] effect;
  for (c in 1:C) {
    vector[K] b = sigma[1] * (z_u[c] - mean(z_u[c]));
    if (levels > 1) {
      b += sigma[2] * (z_v[stratum[c]] - mean(z_v[stratum[c]]));
    }
    effect[c] = b' / sqrt(2.0);
  }
}
model {
  for (g in 1:G) {
    p[g] ~ dirichlet(rep_vector(1.0 / K, K));
  }
  sigma ~ std_normal();
  for (c in 1:C) {
    z_u[c] ~ std_normal();
  }
  if (levels > 1) {
    for (h in 1:H) {
      z_v[h] ~ std_normal();
    }
  }
  for (i in 1:n) {
    target += alpha[i] * log_softmax(log(p[cell[i]]) + effect[psu[i]]')[category[i]];
  }
}
