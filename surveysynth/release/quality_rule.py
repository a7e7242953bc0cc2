"""What suppression is, in a sentence: for help texts and reports."""

QUALITY_RULE = "This is a quality rule, not protection: whoever has the synthetic files can compute these cells."
