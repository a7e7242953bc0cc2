"""Web page on which a team writes the plan of a release.  The plan's file is saved after every change."""
