"""The review app: `streamlit run app.py`, or `fedpdc review`."""

from fedpdc_med.review.shell import main

main()
