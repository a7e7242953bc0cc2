"""The five steps of the page, each with what it shows and what it does with the answers."""
