"""Messages of the kernel, of modprobe and of the system: the loader predicts them; doctor, explain and jobs
recognise them."""
