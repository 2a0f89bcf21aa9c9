"""The readable VDAF reference (draft-irtf-cfrg-vdaf-18)."""
