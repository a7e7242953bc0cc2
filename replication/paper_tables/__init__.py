"""Numbers printed in the papers, with which the results of the replications are compared."""
