// FBS as printed (Hu, Savitsky & Williams 2022a, eq. 2-3, appendix C): one term a record, B explicit and centred.
// The reference for stan/fbs.stan, written for rstan 2.21 and for today's Stan: no arrays.
data {
  int<lower=0> n;
  int<lower=1> K;
  int<lower=1> D;
  matrix[n, K] X;
  matrix[n, D] Y;
  vector<lower=0, upper=1>[n] alpha;
  int<lower=0, upper=1> correlated;  // 1: Omega ~ LKJ; 0: Omega = I
}
parameters {
  matrix[K, D] B;
  matrix<lower=0>[K, D] sigma_beta;
  cholesky_factor_corr[correlated ? K : 1] L_Omega;
  vector<lower=0>[D] s;
  cholesky_factor_corr[D] L_S;
}
transformed parameters {
  matrix[D, D] L = diag_pre_multiply(s, L_S);
}
model {
  to_vector(sigma_beta) ~ student_t(3, 0, 10);
  L_Omega ~ lkj_corr_cholesky(6);
  for (j in 1:D) {
    if (correlated)
      col(B, j) ~ multi_normal_cholesky(rep_vector(0, K), diag_pre_multiply(col(sigma_beta, j), L_Omega));
    else
      col(B, j) ~ normal(0, col(sigma_beta, j));
  }
  s ~ student_t(3, 0, 10);
  L_S ~ lkj_corr_cholesky(6);
  for (i in 1:n)
    target += alpha[i] * multi_normal_cholesky_lpdf(Y[i] | X[i] * B, L);
}
