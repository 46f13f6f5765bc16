"""Local processes that outlive the command that started them: one small supervisor program per process."""
