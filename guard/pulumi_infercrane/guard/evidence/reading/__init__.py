"""What readers of tools' files have in common."""
