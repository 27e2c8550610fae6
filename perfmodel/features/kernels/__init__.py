"""What single kernel calls are described by."""
