"""Features: the pinned window that they are built from, the ibis expressions, and the engines that run them."""
