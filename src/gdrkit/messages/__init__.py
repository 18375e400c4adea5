"""What programs print: the loader says its lines; doctor, explain and jobs hear them."""
