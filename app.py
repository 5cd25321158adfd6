"""The review app: `streamlit run app.py`, or `fedpdc review`."""

from fedpdc_med.review.app.shell import main

if __name__ == "__main__":  # a worker process that starts while the app runs reads this file too
    main()
