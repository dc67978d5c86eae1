"""Private histograms over public bins: hierarchical counts or Toeplitz prefixes, and what they publish."""

from fairveil.privacy.histograms.histogram import Histogram, PrivateHistogram

__all__ = ["Histogram", "PrivateHistogram"]
