// FBS (fbs.stan) with normal effects of PSUs, of strata, or of both; effects and coefficients are
// integrated out.  Y = X B + v_h + u_c + e,  e ~ N(0, L L'),  u_c ~ N(0, L diag(tau_1) L'),
// v_h ~ N(0, L diag(tau_2) L').
//
// In the coordinates l_j' Y (rows of L^-1) the D columns are univariate mixed models with unit
// error variance.  Column j's effects, integrated out, turn the cross products of [R^-' x, residuals]
// (residuals from the fit without effects, divided by the factor L_0) into a matrix G(tau_j), and
// cost -log_det(tau_j) / 2.  Both are smooth in phi_k = log(1 + a_bar_k tau_k) and are tabulated:
// `series` are Chebyshev series on [0, reach] of a few functions of phi_k, and products of one of each
// level, times `table`, are the entries.  However many records, PSUs and strata there are, a gradient
// costs the same.  Beyond reach, where nothing is left of the posterior, the likelihood is taken as
// it is at reach.
//
// L is sampled as L_hat M, and sigma_beta in coordinates t, as in fbs.stan, with one change: below the
// standard error log sigma_beta falls ever faster in t.  A coefficient of three standard errors has a
// percent or so of its posterior there, and a long tail that is seldom visited spoils the effective
// sample size.  phi is spread * softplus(t_phi + centre): normal where the data are certain of phi, with an
// exponential tail towards tau = 0 where they are not.
functions {
  matrix wall(matrix t, matrix r) {                // t between the standard error and b, else an end of it
    return fmin(fmax(t, 1 - inv(r)), 0);
  }
  matrix below(matrix t, matrix r) {               // how far t is below the standard error
    return fmax(1 - inv(r) - t, 0);
  }
  vector chebyshev(real x, int p) {                // T_0(x), ..., T_{p-1}(x)
    vector[p] T;
    T[1] = 1;
    if (p > 1) {
      T[2] = x;
    }
    for (k in 3:p) {
      T[k] = 2 * x * T[k - 1] - T[k - 2];
    }
    return T;
  }
}
data {
  int<lower=1> D;
  int<lower=1> K;
  int<lower=1> rank;
  real<lower=0> A;
  matrix[rank, K] R;
  matrix[rank, D] Z0;
  matrix[D, D] L_0;
  matrix[D, D] L_hat;
  matrix<lower=0>[K, D] b;
  matrix<lower=0, upper=1>[K, D] r;
  int<lower=0, upper=1> correlated;  // 1: Omega ~ LKJ (prior "paper"); 0: Omega = I ("independent")
  int<lower=1, upper=2> levels;      // lowest first
  vector<lower=0>[levels] a_bar;
  vector<lower=0>[levels] reach;
  matrix<lower=0>[levels, D] spread;
  matrix[levels, D] centre;
  array[2] int<lower=1> terms;  // of each level; the one function 1 for a level that is not there
  array[2] int<lower=1> polynomials;
  matrix[terms[1], polynomials[1]] series_1;
  matrix[terms[2], polynomials[2]] series_2;
  int<lower=1> entries;
  matrix[entries + 1, terms[1] * terms[2]] table;  // entries of G that `unpack` refers to, then log_det
  array[(rank + D) * (rank + D)] int<lower=1> unpack;
}
transformed data {
  vector[rank * D] zero = rep_vector(0, rank * D);
  vector[terms[2]] ones = rep_vector(1, terms[2]);
}
parameters {
  vector[D] u;                                     // M_ii = exp(u_i / sqrt(2 A))
  vector[(D * (D - 1)) %/% 2] v;                   // M_ij = v_ij / sqrt(A), i > j, by rows
  matrix[K, D] t;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
  matrix[levels, D] t_phi;
}
transformed parameters {
  matrix[D, D] L;                                  // lower Cholesky factor of Sigma
  matrix[K, D] sigma_beta = b .* exp(fmax(t, 0) - below(t, r) .* (r + 0.15 * below(t, r))) ./ (1 - wall(t, r));
  matrix[levels, D] phi = spread .* log1p_exp(t_phi + centre);
  matrix[levels, D] tau = diag_pre_multiply(inv(a_bar), expm1(phi));
  {
    matrix[D, D] M = diag_matrix(exp(u / sqrt(2 * A)));
    int at = 1;
    for (i in 2:D) {
      for (j in 1:(i - 1)) {
        M[i, j] = v[at] / sqrt(A);
        at += 1;
      }
    }
    L = L_hat * M;
  }
}
model {
  vector[D] sigma = sqrt(diagonal(tcrossprod(L))); // Sigma = diag(sigma) Omega_S diag(sigma)
  matrix[D, D] L_Omega_S = diag_pre_multiply(inv(sigma), L);
  matrix[D, D] W = mdivide_left_tri_low(L, identity_matrix(D));
  matrix[D, D] W_0 = W * L_0;
  vector[rank * D] z;                              // R B in units of its generalised least-squares error
  matrix[rank * D, K * D] root = rep_matrix(0, rank * D, K * D);  // factor of the prior covariance of z

  for (j in 1:D) {
    int a = (j - 1) * rank;
    vector[terms[1]] f_1 = series_1 * chebyshev(2 * fmin(phi[1, j] / reach[1], 1) - 1, polynomials[1]);
    vector[terms[2]] f_2 = ones;
    vector[entries + 1] g;
    matrix[rank + D, rank + D] F;
    if (levels == 2) {
      f_2 = series_2 * chebyshev(2 * fmin(phi[2, j] / reach[2], 1) - 1, polynomials[2]);
    }
    g = table * to_vector(f_2 * f_1');
    F = cholesky_decompose(to_matrix(g[unpack], rank + D, rank + D));
    target += -0.5 * g[entries + 1]
              - 0.5 * dot_self(F[rank + 1 : rank + D, rank + 1 : rank + D]' * W_0[j]');
    z[a + 1 : a + rank] = F[1 : rank, 1 : rank]' * (Z0 * W[j]') + F[rank + 1 : rank + D, 1 : rank]' * W_0[j]';
    for (d in 1:j) {
      matrix[rank, K] R_d = diag_post_multiply(R, sigma_beta[ : , d]);
      if (correlated) {
        R_d = R_d * L_Omega;
      }
      root[a + 1 : a + rank, (d - 1) * K + 1 : d * K] = W[j, d] * (F[1 : rank, 1 : rank]' * R_d);
    }
  }

  sigma ~ student_t(3, 0, 10);
  L_Omega_S ~ lkj_corr_cholesky(6);
  to_vector(sigma_beta) ~ student_t(3, 0, 10);
  L_Omega ~ lkj_corr_cholesky(6);
  to_vector(tau) ~ std_normal();                   // half-normal: tau > 0
  // Jacobians: t -> sigma_beta, t_phi -> tau, (u, v) -> L, row i of L -> (sigma_i, free entries of row i of L_Omega_S)
  target += sum(u) / sqrt(2 * A) + sum(log(sigma_beta)) + sum(log(inv(1 - wall(t, r)) + 0.3 * below(t, r)));
  target += sum(log_inv_logit(t_phi + centre)) + sum(phi);
  for (i in 1:D) {
    target += log(L_Omega_S[i, i]) - (i - 1) * log(sigma[i]);
  }

  target += -A * sum(log(diagonal(L)));
  {
    matrix[rank * D, rank * D] V = tcrossprod(root);
    z ~ multi_normal(zero, add_diag(0.5 * (V + V'), 1));  // Stan wants symmetry to 1e-8, whatever the size of V
  }
}
