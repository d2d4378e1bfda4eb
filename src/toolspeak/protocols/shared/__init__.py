"""Code that several protocol codecs share."""
