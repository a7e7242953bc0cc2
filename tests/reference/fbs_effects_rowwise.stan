// FBS with effects of PSUs and strata, one term a record, coefficients and effects explicit.
// The reference for stan/fbs_effects.stan and for the draws under the flat prior.
data {
  int<lower=0> n;
  int<lower=1> K;
  int<lower=1> D;
  matrix[n, K] X;
  matrix[n, D] Y;
  vector<lower=0, upper=1>[n] alpha;
  int<lower=0, upper=2> prior;  // 0: flat; 1: Omega = I; 2: Omega ~ LKJ
  int<lower=1, upper=2> levels;
  int<lower=1> C;
  int<lower=1> H;
  array[n] int<lower=1, upper=C> psu;
  array[C] int<lower=1, upper=H> stratum;
}
parameters {
  matrix[K, D] B;
  matrix<lower=0>[prior > 0 ? K : 0, D] sigma_beta;
  cholesky_factor_corr[prior > 1 ? K : 1] L_Omega;
  vector<lower=0>[D] s;
  cholesky_factor_corr[D] L_S;
  matrix<lower=0>[levels, D] tau;
  matrix[C, D] z_u;
  matrix[levels > 1 ? H : 0, D] z_v;
}
transformed parameters {
  matrix[D, D] L = diag_pre_multiply(s, L_S);
  matrix[C, D] effect = diag_post_multiply(z_u, sqrt(tau[1])) * L';
  matrix[levels > 1 ? H : C, D] highest;
  for (h in 1:rows(highest)) {
    highest[h] = ((levels > 1 ? z_v[h] : z_u[h]) .* sqrt(tau[levels])) * L';
  }
  if (levels > 1) {
    for (c in 1:C) {
      effect[c] += highest[stratum[c]];
    }
  }
}
model {
  if (prior == 0) {
    // |Sigma|^-(D+1)/2 in the coordinates (s, correlation matrix); lkj_corr_cholesky(1) is flat over the latter
    target += -sum(log(s)) - (D + 1) * sum(log(diagonal(L_S)));
    L_S ~ lkj_corr_cholesky(1);
  } else {
    to_vector(sigma_beta) ~ student_t(3, 0, 10);
    s ~ student_t(3, 0, 10);
    L_S ~ lkj_corr_cholesky(6);
    for (j in 1:D) {
      if (prior > 1) {
        col(B, j) ~ multi_normal_cholesky(rep_vector(0, K), diag_pre_multiply(col(sigma_beta, j), L_Omega));
      } else {
        col(B, j) ~ normal(0, col(sigma_beta, j));
      }
    }
  }
  L_Omega ~ lkj_corr_cholesky(6);
  to_vector(tau) ~ std_normal();
  to_vector(z_u) ~ std_normal();
  to_vector(z_v) ~ std_normal();
  for (i in 1:n) {
    target += alpha[i] * multi_normal_cholesky_lpdf(Y[i] | X[i] * B + effect[psu[i]], L);
  }
}
