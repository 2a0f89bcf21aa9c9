"""Detectors, one module a family; each ends in a DETECTORS table."""
