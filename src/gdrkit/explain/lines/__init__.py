"""Lines of a pasted text: their form, who wrote them, and which command printed them."""
