"""Two-stage samples whose PSUs are alike, with and without effects of PSUs."""
