"""What a run says, described once for page, report and terminal."""
