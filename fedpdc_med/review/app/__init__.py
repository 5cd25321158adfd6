"""The app: everything that knows Streamlit."""
