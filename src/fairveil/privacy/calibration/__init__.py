"""From promises to noise levels: one budget, a total that several noises share, and fits of private learners."""

from fairveil.privacy.calibration.budget import ROUND_UP, Budget, Total, calibrated, noise_level

__all__ = ["ROUND_UP", "Budget", "Total", "calibrated", "noise_level"]
