"""What each remedy makes true, the plan that ends in ready, how it is carried out, and what is declared."""
