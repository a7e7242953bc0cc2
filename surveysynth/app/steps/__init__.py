"""The five steps of the web page: each module shows the questions of a step, and handles the answers."""
