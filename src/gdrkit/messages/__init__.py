"""Messages of other programs: the loader predicts them; doctor, explain and jobs recognise them."""
