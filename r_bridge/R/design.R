# Survey designs and the roles of their columns: what the design objects of R's survey package and of
# Python's surveysynth have in common.

#' The frame and the roles of a design
#'
#' Columns keep their names where the design still has them; others are added.
#'
#' @param design A `survey.design`, `svyrep.design` or srvyr `tbl_svy`.
#' @return A list with `frame`; `roles`, named as the arguments of Python's `SurveyDesign`; and `joint`,
#'   the joint inclusion probabilities of a pps design, or `NULL`.
#' @noRd
design_parts <- function(design) {
  refuse_design(design)
  if (inherits(design, "svyrep.design")) return(replicate_parts(design))
  frame <- plain_frame(design$variables)
  allprob <- as.data.frame(design$allprob)
  calibrated <- !is.null(design$postStrata)
  drawn <- if (calibrated) 1 / apply(as.matrix(allprob), 1, prod) else 1 / design$prob
  named <- name_weights(frame, allprob, drawn)
  frame <- named$frame
  roles <- c(named$roles, stage_roles(design, frame))
  frame <- roles$frame
  roles$frame <- NULL
  if (calibrated) {
    known <- calibration_parts(design, frame, roles, drawn)
    frame <- known$frame
    roles <- known$roles
  }
  joint <- NULL
  if (inherits(design, "pps")) {
    pps <- pps_parts(design)
    roles$fpc <- NULL
    roles$pps <- pps$pps
    joint <- pps$joint
  }
  lonely <- getOption("survey.lonely.psu", "fail")
  roles$lonely_psu <- if (lonely == "certainty") "remove" else lonely
  list(frame = frame, roles = roles, joint = joint)
}

refuse_design <- function(design) {
  no <- function(what, instead) stop(what, " cannot be carried over; ", instead, call. = FALSE)
  if (inherits(design, c("twophase", "twophase2"))) {
    no("a two-phase design", "give the design of the phase whose weights the tables use")
  }
  if (inherits(design, c("DBIsvydesign", "ODBCsvydesign", "DBIrepdesign"))) {
    no("a design whose data are in a database", "read the data first")
  }
  if (!inherits(design, c("survey.design2", "svyrep.design", "pps"))) {
    stop("a design of the survey package was expected (svydesign(), svrepdesign(), srvyr's as_survey()), not a ",
         class(design)[1], call. = FALSE)
  }
  if (inherits(design, "svyrep.design")) return(invisible())
  if (inherits(design, "survey.design2") && !identical(design$pps, FALSE) && !is.null(design$pps)) {
    no("the approximation pps = \"brewer\"", "use ppsmat(), poisson_sampling(), or svydesign() without pps=")
  }
  for (step in design$postStrata) {
    if (inherits(step, "greg_calibration") && is.null(step$margins)) {
      no("a design whose weights calibrate() made", "use postStratify(), or give these weights to a new svydesign()")
    }
    if (inherits(step, "raking")) no("a design whose weights rake() made", "give these weights to a new svydesign()")
  }
  if (any(!is.finite(design$prob))) no("a subset of a calibrated design", "subset the data and make the design of these")
  units <- function(k) !duplicated(design$cluster[[k]])
  for (k in seq_along(design$cluster)) {
    there <- tapply(units(k), as.character(design$strata[[k]]), sum)[as.character(design$strata[[k]])]
    if (any(there != design$fpc$sampsize[, k])) {
      no("a subset of a design", "take the whole design, and the subset as a domain of its tables")
    }
  }
  if (ncol(design$strata) > 1 && nested_strata(design)) no("a design with strata at a later stage", "leave them out")
}

# Whether a later stage has strata of its own: then its strata are finer than the units above.
nested_strata <- function(design) {
  any(vapply(seq_along(design$cluster)[-1], function(k) {
    !same_groups(interaction(design$strata[[k]], drop = TRUE), design$cluster[[k - 1]])
  }, NA))
}

plain_frame <- function(variables) {
  frame <- as.data.frame(variables)
  attr(frame, "pandas") <- attr(variables, "pandas")
  frame
}

same_groups <- function(a, b) identical(match(a, unique(a)), match(b, unique(b)))

free_name <- function(name, frame) if (name %in% names(frame)) free_name(paste0(".", name), frame) else name

# The column of weights or of probabilities that the design was made from, to the last bit; else a new one.
name_weights <- function(frame, allprob, weights) {
  name <- names(allprob)[1]
  if (length(allprob) == 1 && name %in% names(frame) && is.numeric(frame[[name]])) {
    close <- function(a, b) isTRUE(all(abs(a - b) <= 1e-12 * abs(b)))
    if (close(frame[[name]], weights)) return(list(frame = frame, roles = list(weights = name)))
    if (close(1 / frame[[name]], weights)) return(list(frame = frame, roles = list(probs = name)))
  }
  name <- free_name("weight", frame)
  frame[[name]] <- weights
  list(frame = frame, roles = list(weights = name))
}

# Strata, sampling units and finite populations, by the columns that they came from.
stage_roles <- function(design, frame) {
  roles <- list()
  add <- function(name, values, known) {
    if (name %in% names(frame) && known(frame[[name]])) return(name)
    name <- free_name(name, frame)
    frame[[name]] <<- values
    name
  }
  if (design$has.strata) {
    first <- design$strata[[1]]
    roles$strata <- add(names(design$strata)[1], as.character(first), function(x) same_groups(x, first))
  }
  stages <- length(design$cluster)
  elements <- stages == 1 && !anyDuplicated(design$cluster[[1]])
  for (k in if (elements) integer() else seq_len(stages)) {
    unit <- design$cluster[[k]]
    above <- if (k > 1) design$cluster[[k - 1]] else if (design$has.strata) design$strata[[1]] else 1
    nested <- function(x) same_groups(paste(match(above, unique(above)), match(x, unique(x))), unit)
    roles$psu[k] <- add(names(design$cluster)[k], as.integer(match(unit, unique(unit))), nested)
  }
  popsize <- if (inherits(design, "pps")) NULL else design$fpc$popsize
  same <- function(x, values) is.numeric(x) && isTRUE(all(abs(x - values) <= 1e-12 * values))
  for (k in seq_len(NCOL(popsize) * !is.null(popsize))) {
    fraction <- design$fpc$sampsize[, k] / popsize[, k]
    known <- function(x) same(x, popsize[, k]) || same(x, fraction)
    name <- colnames(popsize)[k]
    if (is.null(name) || !nzchar(name)) name <- paste0("fpc", k)
    roles$fpc[k] <- add(name, if (all(is.finite(popsize))) popsize[, k] else fraction, known)
  }
  c(roles, list(frame = frame))
}

# Groups of known totals: postStratify()'s, or the margins of our own raked().
calibration_parts <- function(design, frame, roles, drawn) {
  if (length(design$postStrata) > 1) {
    stop("a design that was post-stratified twice cannot be carried over; give its weights to a new svydesign()",
         call. = FALSE)
  }
  step <- design$postStrata[[1]]
  base <- if (is.null(roles$weights)) free_name("base_weight", frame) else roles$weights
  if (is.null(roles$weights)) frame[[base]] <- drawn
  margins <- if (inherits(step, "greg_calibration")) step$margins else attr(step, "margins")
  if (is.null(margins)) {
    group <- free_name("poststratum", frame)
    frame[[group]] <- as.integer(step)
    margins <- list(group)
  }
  weight <- attr(step, "column")
  if (inherits(step, "greg_calibration")) weight <- step$column
  if (is.null(weight) || !weight %in% names(frame)) {
    weight <- free_name(paste0(base, "_calibrated"), frame)
    frame[[weight]] <- 1 / design$prob
  }
  roles$probs <- NULL
  list(frame = frame, roles = utils::modifyList(roles, list(weights = weight, base_weights = base, poststrata = margins)))
}

# pi_ij from R's check matrix (pi_ij - pi_i pi_j) / pi_ij; independent units have none off the diagonal.
pps_parts <- function(design) {
  if (length(design$dcheck) != 1) {
    stop("a pps= design of several stages cannot be carried over", call. = FALSE)
  }
  check <- as.matrix(design$dcheck[[1]]$dcheck)
  if (all(check[row(check) != col(check)] == 0)) return(list(pps = "poisson", joint = NULL))
  joint <- outer(design$prob, design$prob) / (1 - check)
  diag(joint) <- design$prob
  list(pps = if (design$variance == "YG") "sen_yates_grundy" else "horvitz_thompson", joint = joint)
}

replicate_parts <- function(design) {
  frame <- plain_frame(design$variables)
  sampling <- stats::weights(design, "sampling")
  weights <- name_weights(frame, stats::setNames(data.frame(1 / sampling), weight_column(frame, sampling)), sampling)
  frame <- weights$frame
  replicates <- as.matrix(stats::weights(design, "analysis"))
  stored <- design$repweights
  given <- colnames(if (inherits(stored, "repweights_compressed")) stored$weights else stored)
  names <- vapply(seq_len(ncol(replicates)), function(r) {
    column <- if (length(given) == ncol(replicates)) given[r] else ""
    if (column %in% names(frame) && isTRUE(all.equal(as.numeric(frame[[column]]), replicates[, r], tolerance = 1e-12))) {
      return(column)
    }
    free_name(paste0("replicate_", r), frame)
  }, "")
  new <- !names %in% names(frame)
  frame[names[new]] <- as.data.frame(replicates[, new, drop = FALSE])
  roles <- c(weights$roles, list(replicate_weights = names, scale = design$scale,
                                 rscales = rep_len(design$rscales, ncol(replicates)), mse = isTRUE(design$mse)))
  list(frame = frame, roles = roles, joint = NULL)
}

# The column that holds some weights; there may be none.
weight_column <- function(frame, weights) {
  same <- vapply(frame, function(x) is.numeric(x) && isTRUE(all(abs(x - weights) <= 1e-12 * weights)), NA)
  if (any(same)) names(frame)[which(same)[1]] else "weight"
}

# ---- the other way: the design object of a frame and roles

# `joint`: joint inclusion probabilities, for pps = "sen_yates_grundy" and "horvitz_thompson".
# `replicates`: full replicate weights, a matrix; or columns of the frame that the roles name.
as_design <- function(frame, roles, joint = NULL, replicates = frame[unlist(roles$replicate_weights)]) {
  if (length(replicates)) return(as_replicate_design(frame, roles, replicates))
  calibrated <- !is.null(roles$poststrata)
  drawn <- if (calibrated && !is.null(roles$base_weights)) roles$base_weights else roles$weights
  design <- if (is.null(roles$pps)) sampled_design(frame, roles, drawn) else pps_design(frame, roles, drawn, joint)
  design$variables <- frame
  if (calibrated) calibrated_design(design, roles) else design
}

sampled_design <- function(frame, roles, weights) {
  stages <- stage_columns(frame, roles)
  survey::svydesign(
    ids = stages$ids, strata = one_sided(roles$strata), fpc = stages$fpc, nest = TRUE, data = stages$frame,
    weights = one_sided(weights), probs = if (is.null(weights)) one_sided(roles$probs)
  )
}

one_sided <- function(columns) {
  if (length(columns) == 0) return(NULL)
  terms <- Reduce(function(a, b) call("+", a, b), lapply(unlist(columns), as.name))
  stats::as.formula(call("~", terms), env = baseenv())
}

# ids and fpc of as many stages as R wants: where later stages have no fpc, their populations are infinite.
stage_columns <- function(frame, roles) {
  if (length(roles$psu) <= length(roles$fpc) || length(roles$fpc) == 0) {
    return(list(frame = frame, ids = if (is.null(roles$psu)) ~1 else one_sided(roles$psu), fpc = one_sided(roles$fpc)))
  }
  fractions <- all(frame[unlist(roles$fpc)] <= 1)
  endless <- setdiff(seq_along(roles$psu), seq_along(roles$fpc))
  names <- paste0(".fpc", endless)
  frame[names] <- if (fractions) 0 else Inf
  list(frame = frame, ids = one_sided(roles$psu), fpc = one_sided(c(unlist(roles$fpc), names)))
}

# The weights of the frame add up to public totals already; this tells the variances so.
calibrated_design <- function(design, roles) {
  frame <- design$variables
  margins <- lapply(roles$poststrata, unlist) # one column, or several that are crossed
  known <- lapply(margins, function(columns) {
    totals <- stats::aggregate(frame[roles$weights], frame[columns], sum)
    names(totals)[length(totals)] <- "Freq"
    totals
  })
  if (length(margins) == 1) {
    design <- survey::postStratify(design, one_sided(margins[[1]]), known[[1]])
    attr(design$postStrata[[1]], "margins") <- margins
    attr(design$postStrata[[1]], "column") <- roles$weights
  } else {
    design <- raked(design, margins, known)
    design$postStrata[[1]]$margins <- margins
    design$postStrata[[1]]$column <- roles$weights
  }
  design
}

# Raked weights as calibrate() makes them, whose variance is exact; that of rake() stops on the way.
raked <- function(design, margins, known) {
  variables <- design$variables
  groups <- lapply(margins, function(columns) interaction(variables[columns], drop = TRUE))
  totals <- lapply(known, function(t) {
    stats::setNames(t$Freq, as.character(interaction(t[setdiff(names(t), "Freq")], drop = TRUE)))
  })
  names(groups) <- names(totals) <- paste0("margin", seq_along(groups))
  population <- c(sum(totals[[1]]), unlist(lapply(names(groups), function(name) {
    totals[[name]][levels(groups[[name]])[-1]]
  })))
  formula <- stats::reformulate(names(groups))
  design$variables <- as.data.frame(groups)
  names(population) <- colnames(stats::model.matrix(formula, design$variables))
  design <- survey::calibrate(design, formula, population, calfun = "raking", epsilon = 1e-10, maxit = 1000)
  design$variables <- variables
  design
}

as_replicate_design <- function(frame, roles, replicates) {
  weights <- if (is.null(roles$weights)) 1 / frame[[roles$probs]] else frame[[roles$weights]]
  survey::svrepdesign(
    data = frame, weights = weights, repweights = as.data.frame(replicates), type = "other", combined.weights = TRUE,
    scale = roles$scale, rscales = unlist(roles$rscales), mse = roles$mse
  )
}

pps_design <- function(frame, roles, weights, joint) {
  if (roles$pps == "hajek") stop("R's survey package has no Hajek variance (pps = \"hajek\")", call. = FALSE)
  frame$.pi <- if (is.null(weights)) frame[[roles$probs]] else 1 / frame[[weights]]
  pps <- if (roles$pps == "poisson") survey::poisson_sampling(frame$.pi) else survey::ppsmat(joint)
  variance <- if (roles$pps == "sen_yates_grundy") "YG" else "HT"
  survey::svydesign(ids = ~1, fpc = ~.pi, data = frame, pps = pps, variance = variance)
}
