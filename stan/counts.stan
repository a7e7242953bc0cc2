// Counts given public predictors: negative binomial (Hu, Savitsky & Williams 2020, section 2.1), or Poisson, which is
// phi = infinity,
//
//   y_i ~ NB(mu_g, phi),   var = mu + mu^2 / phi,   log mu_g = X[g] b,
//
// g the predictor row of record i.  With A_g = sum alpha and S_g = sum alpha y over the records of a row, and
// r_g = log(1 + mu_g / phi), the alpha-weighted log likelihood is
//
//   sum_i alpha_i rise(y_i)  +  sum_g { S_g log mu_g - (S_g + A_g phi) r_g },
//   rise(v) = log Gamma(v + phi) - log Gamma(phi) - v log phi  =  sum_{j < v} log(1 + j / phi).
//
// Neither is a difference of large numbers when phi is large.  The first sum runs over a few counts v with weights:
// they stand for all counts (see counts.py).
//
// Coordinates: t is log sigma_b as in fbs.stan.  z would be standard normal given sigma_b and Omega, if the likelihood
// of b were normal, exp(h'a - sum(lambda a^2) / 2) for b = basis * a, lambda falling: what the data say least of has
// one z of its own, the last.  u is log(1 / phi), centred and scaled.
// Of a row with next to no counts the likelihood says that mu is small, exp(-A mu), and no more: on the scale
// x = log(A mu) that is a wall, which chains run into.  There the coordinate is x below w = max(0, mean of x under the
// normal distribution), and q with x = w + log(1 + q - w) above: the wall then is the tail of an exponential
// distribution.  a moves with x as it would if x were observed.
// All of this places the sampler, and is not part of the target.
functions {
  vector stirling(vector x) {                      // log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2, x >= 20
    vector[num_elements(x)] w = inv_square(x);
    return (1 - w .* (1.0 / 30 - w .* (1.0 / 105 - w / 140))) ./ (12 * x);
  }
  vector rise(vector v, real phi) {
    vector[num_elements(v)] x = v + phi;
    if (phi < 20) {
      return lgamma(x) - lgamma(phi) - v * log(phi);
    }
    return (x - 0.5) .* log1p(v / phi) - v + stirling(x) - stirling([phi]')[1];
  }
  vector wall(vector t, vector r) {                // as in fbs.stan
    return fmin(fmax(t, 1 - inv(r)), 0);
  }
}
data {
  int<lower=1> G;
  int<lower=1> K;
  int<lower=0> V;
  int<lower=0, upper=1> dispersed;                 // 1: negative binomial; 0: Poisson
  int<lower=0, upper=1> correlated;                // 1: Omega ~ LKJ (prior "paper"); 0: Omega = I
  matrix[G, K] X;
  vector<lower=0>[G] A;
  vector<lower=0>[G] S;
  vector<lower=0>[V] v;
  vector<lower=0>[V] weight;
  vector[K] centre;
  matrix[K, K] basis;                              // orthogonal
  vector<lower=0>[K] lambda;
  vector[K] h;
  vector<lower=0>[K] size;
  vector<lower=0, upper=1>[K] ratio;
  int<lower=0> Z;                                  // rows with next to no counts
  matrix[Z, K] X_empty;
  vector[Z] log_A_empty;
  real l_centre;
  real<lower=0> l_scale;
}
transformed data {
  vector[G] eta_centre = X * centre;
  matrix[Z, K] E = X_empty * basis;
}
parameters {
  vector[K] t;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
  vector[K] z;
  vector[dispersed] u;
}
transformed parameters {
  vector[K] sigma_b = size .* exp(fmax(t, 0) + ratio .* fmin(t - 1 + inv(ratio), 0)) ./ (1 - wall(t, ratio));
  vector[K] b;
  vector[dispersed] l = l_centre + l_scale * u;    // log(1 / phi)
  real log_prior_b;                                // with the Jacobian of z -> b
  {
    matrix[K, K] root = correlated ? diag_pre_multiply(sigma_b, L_Omega) : diag_matrix(sigma_b);
    matrix[K, K] C = cholesky_decompose(add_diag(crossprod(mdivide_left_tri_low(root, basis)), lambda));
    vector[K] mean_root = mdivide_left_tri_low(C, h);
    vector[K] a_root = mean_root + z;              // C'a
    vector[Z] up;
    if (Z > 0) {
      matrix[K, Z] E_root = mdivide_left_tri_low(C, E');
      up = fmax(E_root' * a_root + log_A_empty - fmax(E_root' * mean_root + log_A_empty, 0), 0);
      a_root += E_root * mdivide_left_spd(crossprod(E_root), log1p(up) - up);
    }
    b = basis * mdivide_right_tri_low(a_root', C)';
    log_prior_b = -0.5 * dot_self(mdivide_left_tri_low(root, b)) - sum(log(diagonal(root))) - sum(log(diagonal(C)))
                  - sum(log1p(up));
  }
}
model {
  vector[G] away = X * (b - centre);               // of log mu: small where there is much data

  sigma_b ~ student_t(3, 0, 1);
  target += sum(log(sigma_b)) - sum(log1m(wall(t, ratio)));              // Jacobian of t -> sigma_b
  L_Omega ~ lkj_corr_cholesky(6);
  target += log_prior_b;
  if (dispersed) {
    real phi = exp(-l[1]);
    vector[G] r = log1p_exp(eta_centre + away + l[1]);
    exp(l[1]) ~ cauchy(0, 5);
    target += l[1];                                // Jacobian of log(1 / phi) -> 1 / phi
    target += dot_product(weight, rise(v, phi)) + dot_product(S, away - r) - phi * dot_product(A, r);
  } else {
    target += dot_product(S, away) - dot_product(A, exp(eta_centre + away));
  }
}
