"""The delay limits of other systems as data, and one judge of delays for the broker and for reports."""
