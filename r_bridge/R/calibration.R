# Calibrated designs: what calibrate(), postStratify() and rake() of the survey package leave in a design, and the roles of
# columns that say the same to Python: poststrata, auxiliary, base_weights, calibrated_weights, raked_weights.

CALIBRATION <- c("poststrata", "auxiliary", "base_weights", "calibrated_weights", "raked_weights")

# ---- from a design of R

# Whether a design has the approximate variance of svydesign(pps = "brewer").
is_brewer <- function(design) inherits(design, "survey.design2") && isTRUE(design$pps)

refuse_calibration <- function(design, no) {
  for (step in design$postStrata) {
    if (inherits(step, "greg_calibration") && !identical(as.numeric(step$stage), 0)) {
      no("a design that calibrate(stage = ) calibrated within its clusters", "calibrate to totals of the population")
    }
  }
  if (length(design$postStrata) && inherits(design, "pps")) {
    no("a calibrated design with pps =, whose calibration the variances of R's survey forget",
       "give the design before calibrate(); ss.SurveyDesign.calibrate() of Python calibrates it")
  }
  if (any(design$prob < 0)) {
    no("a design whose weights calibrate() made negative", "give calibrate() bounds =, or calfun = \"raking\"")
  }
}

# A step of design$postStrata in one form: the weights `before` and `after`, and the known totals as `X` (with `root`, the
# square root of `before`, and the decomposition `qr` of X * root) or as groups of margins, `groups`.
# `after`: its weights, where the step does not tell, or NULL; then it began with the weights `drawn`.
read_step <- function(step, after, drawn) {
  marks <- if (is.list(step) && !inherits(step, "raking")) step$columns else attr(step, "columns")
  if (inherits(step, "greg_calibration")) return(c(read_regression(step, after, drawn), list(marks = marks)))
  margins <- if (inherits(step, "raking")) unclass(step) else list(step)
  weights <- lapply(margins, attr, "weights")
  list(groups = lapply(margins, as.integer), after = weights[[length(weights)]], raked = weights[-length(weights)],
       before = if (!inherits(step, "raking")) attr(step, "oldweights"), marks = marks)
}

read_regression <- function(step, after, drawn) {
  X <- if (inherits(step$qr, "qr")) qr.X(step$qr) else sparse_X(step$qr)
  known <- "(Intercept)" %in% colnames(X)
  root <- if (known) X[, "(Intercept)"] else if (is.null(after)) sqrt(drawn) else ifelse(step$w == 0, 0, after / step$w)
  list(X = ifelse(root == 0, 0, 1 / root) * X, qr = qr(X), root = root, before = root^2,
       after = if (known || is.null(after)) step$w * root else after)
}

# The matrix of a decomposition that calibrate(sparse = TRUE) made.
sparse_X <- function(decomposition) {
  R <- as.matrix(decomposition@R)
  X <- as.matrix(Matrix::qr.qy(decomposition, R))
  columns <- decomposition@q + 1L
  if (length(columns)) X[, columns] <- X[, seq_along(columns), drop = FALSE]
  colnames(X) <- decomposition@R@Dimnames[[2]][order(columns)]
  X
}

# All steps, in their order.
read_steps <- function(design) {
  steps <- list()
  after <- 1 / design$prob
  before <- 1 / apply(as.matrix(design$allprob), 1, prod)
  for (step in rev(design$postStrata)) {
    steps <- c(list(read_step(step, after, before)), steps)
    after <- steps[[1]]$before
  }
  for (k in seq_along(steps)) { # rake() does not keep the weights that it began with
    if (is.null(steps[[k]]$before)) steps[[k]]$before <- before
    before <- steps[[k]]$after
  }
  steps
}

# The weights before all calibrations; they may have been trimmed before, so that allprob has others.
weights_before <- function(design) read_steps(design)[[1]]$before

# The roles of a calibrated design, and the frame with their columns.
calibration_parts <- function(design, frame, roles, drawn) {
  column <- function(values, name, candidates = NULL) {
    for (each in intersect(candidates, names(frame))) if (same_numbers(frame[[each]], values)) return(each)
    name <- free_name(name, frame)
    frame[[name]] <<- values
    name
  }
  steps <- read_steps(design)
  called <- intersect(called_columns(design$call), names(frame))
  base <- if (is.null(roles$weights)) column(drawn, "base_weight", steps[[1]]$marks$base_weights) else roles$weights
  chain <- base
  known <- list()
  for (k in seq_along(steps)) {
    step <- steps[[k]]
    found <- if (is.null(step$X)) margin_columns(step, frame, called) else known_columns(step, frame)
    frame <- found$frame
    made <- found$roles
    made$base_weights <- chain
    made$raked_weights <- unlist(Map(function(values, k) {
      column(values, paste0(base, "_raked_", k), step$marks$raked_weights[k])
    }, step$raked, seq_along(step$raked)))
    last <- k == length(steps)
    following <- if (last) 1 / design$prob else steps[[k + 1]]$before
    names_of_following <- c(step$marks$weights, if (!last) steps[[k + 1]]$marks$base_weights)
    chain <- column(following, paste0(base, "_calibrated", if (!last) paste0("_", k)), names_of_following)
    if (!same_numbers(following, step$after)) {
      made$calibrated_weights <- column(step$after, paste0(base, "_before_trimming"), step$marks$calibrated_weights)
    }
    known[[k]] <- made[intersect(CALIBRATION, names(made))[lengths(made[intersect(CALIBRATION, names(made))]) > 0]]
  }
  roles[c("probs", "weights")] <- NULL
  roles <- c(list(weights = chain), roles, known[[length(known)]])
  if (length(known) > 1) roles$earlier_calibrations <- known[-length(known)]
  if (identical(roles$base_weights, chain)) roles$base_weights <- NULL # the calibration changed no weight
  list(frame = frame, roles = roles)
}

# The columns of the margins of postStratify() and rake(): those that the call names, or that have the same groups.
margin_columns <- function(step, frame, called) {
  sets <- c(lapply(as.list(step$marks$poststrata), unlist), column_sets(called), as.list(names(Filter(is_category, frame))))
  margins <- lapply(step$groups, function(group) {
    for (columns in sets) {
      if (all(columns %in% names(frame)) && same_groups(crossed(frame, columns), group)) return(columns)
    }
    name <- free_name("poststratum", frame)
    frame[[name]] <<- group
    name
  })
  list(roles = list(poststrata = unname(margins)), frame = frame)
}

# The columns that a call of postStratify() or rake() is about.
called_columns <- function(call) {
  name <- if (is.call(call)) utils::tail(as.character(call[[1]]), 1) else ""
  if (!name %in% c("postStratify", "rake")) return(character())
  matched <- tryCatch(match.call(getExportedValue("survey", name), call), error = function(e) list())
  all.vars(matched[[if (name == "rake") "sample.margins" else "strata"]])
}

is_category <- function(x) is.factor(x) || is.character(x) || is.logical(x)

# One column, two, three: which margins of a call may have.
column_sets <- function(columns) {
  if (!length(columns)) return(list())
  unlist(lapply(seq_len(min(3, length(columns))), utils::combn, x = columns, simplify = FALSE), recursive = FALSE)
}

# The number of each record's group; of no column, all are one.
crossed <- function(frame, columns) {
  groups <- lapply(unname(as.list(frame[columns])), numbered)
  if (!length(groups)) return(rep(1L, nrow(frame)))
  numbered(do.call(paste, groups))
}

indicators <- function(group) outer(group, seq_len(max(group)), "==") + 0

# The columns whose totals calibrate() knew: categories all of whose groups are combinations of the columns of X, numbers of
# the frame, and new columns for the rest of X.  The variance is the same for all that span the same space.
known_columns <- function(step, frame) {
  X <- step$X
  none <- function(rest, whole) colSums(rest^2) <= 1e-16 * colSums(whole^2)
  fits <- function(columns) {
    if (!all(columns %in% names(frame))) return(FALSE)
    group <- crossed(frame, columns)
    if (max(group) > ncol(X)) return(FALSE)
    M <- indicators(group) * step$root
    all(none(qr.resid(step$qr, M), M))
  }
  margins <- Filter(fits, lapply(as.list(step$marks$poststrata), unlist))
  if (!length(margins)) {
    sets <- unique(Filter(fits, Filter(length, lapply(colnames(X), categories_in, frame = frame))))
    smaller <- function(columns) any(vapply(sets, function(other) all(columns %in% other) && !setequal(columns, other), NA))
    margins <- Filter(Negate(smaller), sets) # without those of crossed ones
  }
  if (!length(margins) && fits(character())) margins <- list(character())
  rest <- X * step$root
  if (length(margins)) {
    inside <- do.call(cbind, lapply(margins, function(columns) indicators(crossed(frame, columns)))) * step$root
    rest <- qr.resid(qr(inside), rest)
  }
  numbers <- c()
  for (k in which(!none(rest, X * step$root))) {
    values <- X[, k]
    near <- function(name) {
      there <- numbers(frame[[name]])
      length(there) == length(values) && isTRUE(all(abs(there - values) <= 1e-10 * max(abs(values))))
    }
    name <- Find(near, intersect(c(colnames(X)[k], step$marks$auxiliary), names(frame)))
    if (is.null(name)) {
      name <- free_name(if (length(colnames(X))) colnames(X)[k] else paste0("known_", k), frame)
      values[abs(values) < 1e-12 * max(abs(values))] <- 0
      frame[[name]] <- signif(values, 14)
    }
    numbers <- c(numbers, name)
  }
  list(roles = list(poststrata = if (length(margins)) margins, auxiliary = unique(numbers)), frame = frame)
}

# The categories that a column of a model matrix is of: "stypeH:awardsYes" is of stype and awards.
categories_in <- function(name, frame) {
  categories <- names(Filter(is_category, frame))
  found <- vapply(strsplit(name, ":", fixed = TRUE)[[1]], function(part) {
    begin <- categories[startsWith(part, categories)]
    level <- vapply(begin, function(v) substring(part, nchar(v) + 1) %in% as.character(frame[[v]]), NA)
    c(begin[level], NA)[1]
  }, "")
  if (anyNA(found)) NULL else unique(unname(found))
}

# ---- to a design of R

# The weights of the frame have the known totals already; this tells the variances so.
calibrated_design <- function(design, frame, roles) {
  steps <- c(roles$earlier_calibrations, list(roles[intersect(CALIBRATION, names(roles))]))
  final <- numbers(frame[[roles$weights]])
  before <- lapply(steps, function(step) if (is.null(step$base_weights)) final else numbers(frame[[step$base_weights]]))
  design$postStrata <- lapply(seq_along(steps), function(k) {
    step <- steps[[k]]
    following <- if (k < length(steps)) before[[k + 1]] else final
    after <- if (is.null(step$calibrated_weights)) following else numbers(frame[[step$calibrated_weights]])
    made <- write_step(step, frame, before[[k]], after)
    step$weights <- if (k < length(steps)) steps[[k + 1]]$base_weights else roles$weights
    if (inherits(made, "greg_calibration")) made$columns <- step else attr(made, "columns") <- step # for the way back
    made
  })
  design$prob <- 1 / final # to the last bit
  design
}

write_step <- function(step, frame, before, after) {
  margins <- lapply(as.list(step$poststrata), unlist) # of one column each, or of several, crossed
  group <- function(columns, before, after) structure(crossed(frame, columns), oldweights = before, weights = after)
  if (length(step$raked_weights)) {
    weights <- c(lapply(frame[unlist(step$raked_weights)], numbers), list(after))
    return(structure(unname(Map(group, margins, list(before), weights)), class = "raking"))
  }
  if (length(margins) == 1 && !length(step$auxiliary)) return(group(margins[[1]], before, after))
  X <- do.call(cbind, lapply(margins, function(columns) indicators(crossed(frame, columns))))
  if (length(margins)) X <- cbind("(Intercept)" = 1, X) # which tells the weights, and adds nothing to indicators
  X <- do.call(cbind, c(list(X), lapply(unname(frame[unlist(step$auxiliary)]), numbers)))
  root <- sqrt(before)
  structure(list(qr = qr(X * root), w = ifelse(root == 0, 1, after / root), stage = 0, index = NULL),
            class = "greg_calibration")
}
