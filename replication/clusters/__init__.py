"""Two-stage samples with an intraclass correlation, synthesized with and without effects of PSUs."""
