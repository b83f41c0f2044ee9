"""Tests of MNN; rooms here mirror the rooms of src/MNN."""
