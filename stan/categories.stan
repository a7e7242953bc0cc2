// Shares of categories by cell, with effects of PSUs, of strata, or of both on their logarithms:
//
//   P(k | cell g, PSU c) ~ p_g[k] exp(b_c[k]),   p_g ~ Dirichlet(1/K, ..., 1/K),
//   b_c = (sigma_1 z_c + sigma_2 z_h(c)) / sqrt(2),   z centred standard normal vectors,
//
// so sigma is the standard deviation of an effect on the log odds of any two categories.  In coordinates e,
// b = Q e with Q'Q = 1, Q' 1 = 0, each is N(v, sigma_1^2 / 2) around its stratum's v ~ N(0, sigma_2^2 / 2).
// The likelihood knows the records by their counts n (sums of alpha):
//
//   sum_gk n_gk log p_gk + sum_ck n_ck b_ck - sum over occurring pairs (g, c) of n_gc log sum_k p_gk exp(b_ck).
//
// Coordinates are placed so that they are nearly independent and normal; this is exact whatever places them.
// - Without effects, p_g would be Dirichlet(shape_g), shape = 1/K + n: independent gamma variables over their
//   sum S_g.  These are what is sampled: S_g, which the data know nothing of, is given the distribution
//   Gamma(1 + n_g) that makes them independent.  t is their logarithm in units of its standard deviation; where
//   shape < 1 it falls with 1 / shape below 0, as a gamma variable of small shape does, and with unit scale above.
//   They make the shares at the mean effect of the cell's records: what the data know best.
// - If the data told of e by a normal likelihood with this `information` and a maximum at pull / information,
//   then z would be standard normal given sigma: effects of small PSUs are sampled as multiples of sigma, those
//   of large ones as deviations from what the data say.  But all effects at once may move against all shares,
//   of which the data know nothing: `mirror`, reflections of the PSUs (strata), make that one coordinate of z.
// - sigma is spread * softplus(t_sigma): normal where the data are certain of sigma, with an exponential tail
//   towards 0 where they are not.
functions {
  matrix log_gamma(matrix t, matrix at_least_1, matrix stretch) {
    return log(at_least_1) + t ./ sqrt(at_least_1) - stretch .* log1p_exp(-t);
  }
  matrix sums(int groups, vector weight, array[] int member, array[] int start, matrix x) {
    matrix[groups, cols(x)] total;
    for (j in 1:cols(x)) {
      total[ : , j] = csr_matrix_times_vector(groups, rows(x), weight, member, start, col(x, j));
    }
    return total;
  }
  matrix reflected(matrix z, matrix mirror) {
    return z - mirror .* rep_matrix(2 * columns_dot_product(mirror, z), rows(z));
  }
}
data {
  int<lower=1> G;
  int<lower=2> K;
  int<lower=1> C;
  int<lower=1, upper=2> levels;                    // lowest first
  int<lower=0> H;                                  // 0 for one level
  matrix[K, K - 1] Q;
  matrix<lower=0>[G, K] shape;
  matrix<lower=0>[C, K] n_psu;
  int<lower=1> pairs;                              // by cell
  array[pairs] int<lower=1, upper=G> cell;
  array[pairs] int<lower=1, upper=C> psu;
  vector<lower=0>[pairs] n_pair;
  array[G + 1] int<lower=1> start_cell;
  array[C] int<lower=1> stratum;
  array[C] int<lower=1, upper=C> member;           // PSUs by stratum
  array[H + 1] int<lower=1> start_stratum;
  matrix<lower=0>[C, K - 1] information;
  matrix[C, K - 1] pull;
  matrix[C, K - 1] mirror;                         // columns of length 1 or 0
  matrix[H, K - 1] mirror_stratum;
  vector<lower=0>[levels] spread;
}
transformed data {
  vector[K] ones = rep_vector(1, K);
  vector[C] each = rep_vector(1, C);
  vector[G] n_cell = shape * ones - 1;
  vector[pairs] part = n_pair ./ fmax(n_cell[cell], 1e-300);
  matrix[C, K - 1] n_e = n_psu * Q;
  matrix[G, K] at_least_1 = fmax(shape, 1);
  matrix[G, K] stretch = fmax(inv(shape), 1) - 1;
}
parameters {
  matrix[G, K] t;
  vector[levels] t_sigma;
  matrix[C, K - 1] z_psu;
  matrix[H, K - 1] z_stratum;
}
transformed parameters {
  vector[levels] sigma = spread .* log1p_exp(t_sigma);
  matrix[C, K - 1] e;                              // total effects
  matrix[H, K - 1] v;                              // those of strata
  matrix[G, K] log_share;
  real log_prior;                                  // of effects, and the Jacobian of z -> effects
  {
    real s = sigma[1] / sqrt2();
    matrix[C, K - 1] left = inv(1 + square(s) * information);  // of the prior's variance, after the data
    matrix[C, K - 1] above = rep_matrix(0, C, K - 1);
    matrix[C, K - 1] q;                            // effects in units of the prior's standard deviation
    matrix[G, K] u = log_gamma(t, at_least_1, stretch);
    log_prior = 0.5 * sum(log(left));
    if (levels == 2) {
      real s_2 = sigma[2] / sqrt2();
      matrix[H, K - 1] left_2 = inv(1 + square(s_2) * sums(H, each, member, start_stratum, left .* information));
      matrix[H, K - 1] q_2 = s_2 * left_2 .* sums(H, each, member, start_stratum, left .* pull)
                             + sqrt(left_2) .* reflected(z_stratum, mirror_stratum);
      v = s_2 * q_2;
      above = v[stratum];
      log_prior += 0.5 * sum(log(left_2)) - 0.5 * sum(square(q_2));
    }
    q = s * left .* (pull - information .* above) + sqrt(left) .* reflected(z_psu, mirror);
    e = above + s * q;
    log_prior -= 0.5 * sum(square(q));
    u -= sums(G, part, psu, start_cell, e) * Q';
    log_share = u - rep_matrix(log(exp(u) * ones), K);
  }
}
model {
  vector[G] S = exp(log_gamma(t, at_least_1, stretch)) * ones;
  matrix[G, K] share = exp(log_share);
  matrix[C, K] odds = exp(e * Q');

  target += sum(shape .* log_share) + dot_product(1 + n_cell, log(S)) - sum(S);
  target += sum(e .* n_e) - dot_product(n_pair, log(rows_dot_product(share[cell], odds[psu])));
  target += log_prior;
  sigma ~ std_normal();                            // half-normal: sigma > 0
  // Jacobians: t -> log gamma variables, t_sigma -> sigma
  target += sum(log(inv_sqrt(at_least_1) + stretch .* inv_logit(-t))) + sum(log_inv_logit(t_sigma));
}
