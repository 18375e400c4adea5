"""The document of `gdr doctor` and of `gdr fix`, its forms, and what every feature's text shares."""
