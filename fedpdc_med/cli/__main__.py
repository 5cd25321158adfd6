"""`python -m fedpdc_med.cli`."""

from fedpdc_med.cli import main

main()
