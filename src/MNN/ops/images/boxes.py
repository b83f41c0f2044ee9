"""Boxes of detections: from predictions to corners, and which of overlapping ones stay. Corners are x0, y0, x1, y1."""

from __future__ import annotations

import numpy as np


def decode_centres(priors: np.ndarray, variances: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Corner boxes from centre-size offsets to corner priors; all are ``[n, 4]``."""
    size = priors[:, 2:] - priors[:, :2]
    centre = (priors[:, :2] + priors[:, 2:]) / 2 + variances[:, :2] * offsets[:, :2] * size
    half = np.exp(variances[:, 2:] * offsets[:, 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], 1)


def decode_corners(priors: np.ndarray, variances: np.ndarray, offsets: np.ndarray, sized: bool) -> np.ndarray:
    """Corner boxes from offsets of corners, which are shares of the prior's size when ``sized``."""
    size = np.tile(priors[:, 2:] - priors[:, :2], 2) if sized else np.float32(1)
    return np.asarray(priors + variances * offsets * size)


def best_first(scores: np.ndarray, limit: float, most: int = 0) -> np.ndarray:
    """The places of scores above ``limit``, best first, equal ones in order; the ``most`` best unless that is 0."""
    found = np.flatnonzero(scores > limit)
    found = found[np.argsort(-scores[found], kind="stable")]
    return found[:most] if most > 0 else found


def suppress(
    boxes: np.ndarray, order: np.ndarray, overlap: float, most: int, decay: float = 1.0, extra: float = 0.0
) -> list[int]:
    """Greedy non-maximum suppression: indices kept, in order, at most ``most``.

    A box goes when it shares more than ``overlap`` with one that stays; after each that stays, a limit above 0.5 is
    multiplied by ``decay`` (adaptive suppression). ``extra`` is added to sizes: 1 where corners are whole pixels.
    """
    kept: list[int] = []
    with np.errstate(all="ignore"):  # of corners that are not finite, or very far away
        area = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2] + extra, 0), axis=1)
    shares = np.zeros(len(boxes))
    while order.size and len(kept) < most:
        best, order = int(order[0]), order[1:]
        if shares[best] > overlap:  # the limit has come down since
            continue
        kept.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[order, :2]), np.minimum(boxes[best, 2:], boxes[order, 2:])
        with np.errstate(all="ignore"):
            shared = np.prod(np.maximum(high - low + extra, 0), axis=1)
            share = shared / (area[best] + area[order] - shared)
        shares[order] = np.fmax(shares[order], share)
        if decay < 1 and overlap > 0.5:
            overlap *= decay
        order = order[~(share > overlap)]
    return kept
