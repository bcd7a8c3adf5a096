"""Delay schemes for absolute due times: one engine over interchangeable stores, a package for each store."""
