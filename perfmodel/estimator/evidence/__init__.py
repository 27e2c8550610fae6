"""What observed steps change."""
