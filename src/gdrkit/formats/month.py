"""The name of a month in the time that journald and syslog print, in any language."""

MONTH = r"(?:[^\W\d_]{2,5}\.?|\d{1,2}[\u6708\uc6d4])"
"""`Nov`, `nov.`, and a number with the character for a month in Chinese, Japanese and Korean: %b of
strftime(3)."""
