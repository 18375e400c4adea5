"""Libraries that talk to hardware, through ctypes: each call checked, each refusal named."""
