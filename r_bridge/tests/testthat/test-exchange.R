frame_of_all_types <- function() {
  data.frame(
    logical = c(TRUE, NA, FALSE, TRUE), integer = c(1L, NA, -7L, .Machine$integer.max),
    double = c(0.1, NA, -1e-300, 2^60), text = c("a", NA, "", "b c"), whole = c(TRUE, FALSE, TRUE, TRUE),
    factor = factor(c("low", NA, "high", "low"), levels = c("low", "unused", "high")),
    ordered = factor(c("b", "a", "a", NA), levels = c("b", "a"), ordered = TRUE),
    date = as.Date(c("2024-02-29", NA, "1969-12-31", "1582-10-15")),
    time = as.POSIXct(c("2024-03-31 01:30:00", NA, "1960-01-01 00:00:00.25", "2024-10-27 00:30:00"),
                      tz = "Europe/Rome"),
    "G\u00f6teborg & co" = c("\u00e9t\u00e9", "\u4e2d\u6587", NA, ""), none = NA, no_text = NA_character_,
    check.names = FALSE, stringsAsFactors = FALSE
  )
}

through_files <- function(frame) bridge$in_folder(function(folder) {
  bridge$save_frame(frame, folder)
  bridge$loaded(folder)
})

through_python <- function(frame) bridge$in_folder(function(folder) {
  there <- bridge$frame_for_python(frame, folder, "there")$arguments$folder
  back <- file.path(folder, "back")
  dir.create(back)
  exchange <- reticulate::import("surveysynth.r.exchange", convert = FALSE)
  exchange$save(exchange$load(there), back)
  bridge$loaded(back)
})

test_that("a frame of every type comes back as it was, from files and from Python", {
  frame <- frame_of_all_types()
  expect_identical(through_files(frame), frame)
  expect_identical(through_files(frame[0, ]), frame[0, ])
  need_python()
  bridge$python_bridge()
  expect_identical(through_python(frame), frame)
  expect_identical(through_python(frame[0, ]), frame[0, ])
  expect_identical(through_python(data.frame(x = NaN)), data.frame(x = NA_real_)) # pandas has one missing number
})

test_that("whole numbers beyond 2^53 come back as integer64", {
  skip_if_not_installed("bit64")
  frame <- data.frame(id = bit64::as.integer64(c("9007199254740993", NA, "-9223372036854775807")))
  expect_identical(through_files(frame), frame)
  need_python()
  bridge$python_bridge()
  expect_identical(through_python(frame), frame)
})

test_that("Python reads the values that R has", {
  need_python()
  frame <- frame_of_all_types()[c(1, 3, 4), ]
  said <- bridge$in_folder(function(folder) {
    bridge$save_frame(frame, folder)
    from_python("
from surveysynth.r.exchange import load
frame = load(sys.argv[1])
text = lambda x: None if x != x else x.hex() if isinstance(x, float) else str(x)
print(json.dumps({c: [text(x) for x in frame[c].astype(object).where(frame[c].notna(), None)] for c in frame if c not in
                  ('none', 'no_text')}, default=str))", folder)
  })
  expect_identical(said$logical, c("True", "False", "True"))
  expect_identical(said$integer, as.character(frame$integer))
  expect_identical(as.numeric(said$double), frame$double)
  expect_identical(said$text, frame$text)
  expect_identical(said$factor, as.character(frame$factor))
  expect_identical(said$date, as.character(frame$date))
  expect_identical(said$time, c("2024-03-31 01:30:00+01:00", "1960-01-01 00:00:00.250000+01:00",
                                "2024-10-27 00:30:00+02:00"))
  expect_identical(said[["G\u00f6teborg & co"]][1], "\u00e9t\u00e9")
})

test_that("columns that no Python column can hold are refused by name", {
  expect_error(through_files(data.frame(z = 1i)), "column .z. is of type complex")
  expect_error(through_files(list2DF(list(l = list(1, 2)))), "column .l. is a list or a matrix")
  expect_error(through_files(data.frame(t = as.difftime(1, units = "mins"))), "column .t. is of class difftime")
  expect_error(through_files(stats::setNames(data.frame(1, 2), c("a", "a"))), "several columns of the same name")
})

test_that("numbers keep all their digits on the way to Python, and whole numbers stay whole", {
  expect_identical(bridge$as_json(list(a = 0.1, b = 3, c = 1e10, d = c(1 / 3, NA), e = I("x"), f = NULL, g = TRUE)),
                   '{"a":0.10000000000000001,"b":3,"c":10000000000,"d":[0.33333333333333331,NaN],"e":["x"],"g":true}')
  expect_identical(bridge$as_json(bridge$make("AsinhTransform", "asinh_transform", scale = 2)), '{"__make__":"AsinhTransform","scale":2}')
  expect_identical(bridge$as_json(list(t = list(E = 1, H = 2.5), i = I(1), n = Inf)),
                   '{"t":{"E":1,"H":2.5},"i":[1],"n":Infinity}')
})
