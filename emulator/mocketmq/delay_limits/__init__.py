"""The delay limits of other systems as data, and the check of delays that broker and reports share."""
