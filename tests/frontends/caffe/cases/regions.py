"""Regions of interest: proposed, and pooled."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.cases.draw import Case, Draw, family


@family("ROIPooling")
def roi_pooling(d: Draw) -> Case:
    n, c, h, w = d.int(1, 2), d.int(1, 4), d.int(6, 12), d.int(6, 12)
    d.input(n, c, h, w)
    scale = d.one([1.0, 0.5])
    rows = []
    for _ in range(d.int(1, 5)):
        x0, y0 = d.int(0, int(w / scale) - 2), d.int(0, int(h / scale) - 2)
        rows.append([0, x0, y0, d.int(x0, int(w / scale) - 1), d.int(y0, int(h / scale) - 1)])
    d.fed(np.asarray(rows, np.float32), "rois")
    d.add("ROIPooling", ["data", "rois"], roi_pooling_param={
        "pooled_h": d.int(1, 4), "pooled_w": d.int(1, 4), "spatial_scale": scale,
    })  # fmt: skip
    return d.case()


@family("PSROIPooling")
def position_sensitive(d: Draw) -> Case:
    """OpenCV counts; corners are whole pixels, so that rounding is not compared."""
    outputs, bins, h, w = d.int(1, 3), d.int(1, 3), d.int(6, 12), d.int(6, 12)
    d.input(1, outputs * bins * bins, h, w)
    rows = []
    for _ in range(d.int(1, 4)):
        x0, y0 = d.int(0, w - 3), d.int(0, h - 3)
        rows.append([0, x0, y0, d.int(x0 + 1, w - 1), d.int(y0 + 1, h - 1)])
    d.fed(np.asarray(rows, np.float32), "rois")
    d.add("PSROIPooling", ["data", "rois"], psroi_pooling_param={
        "spatial_scale": 1.0, "output_dim": outputs, "group_size": bins,
    })  # fmt: skip
    return d.case()


@family("Proposal", "Python")
def proposal(d: Draw, kind: str) -> Case:
    """As the paper's program has it, one box after the other."""
    h, w, usual = d.int(2, 5), d.int(2, 5), kind == "Python"
    ratios, scales = ([0.5, 1.0, 2.0], [8.0, 16.0, 32.0]) if usual else ([1.0, 2.0][: d.int(1, 2)], [2.0, 4.0])
    step, most, overlap = 16, 300 if usual else d.int(1, 12), 0.7 if usual else d.number(0.3, 0.8)
    smallest, candidates = 16, 6000 if usual else d.int(5, 60)
    count = len(ratios) * len(scales)
    chances = d.rng.permutation(2 * count * h * w).reshape(1, 2 * count, h, w) / (2 * count * h * w)
    scores, moves = d.fed(chances, "scores"), d.input(1, 4 * count, h, w, name="moves", low=-0.5, high=0.5)
    height, width, scale = float(step * h), float(step * w), 1.0
    d.fed(np.array([[height, width, scale]]), "im_info")
    bottoms, tops = ["scores", "moves", "im_info"], ["rois"] if usual else ["rois", "chances"]
    if usual:
        d.add("Python", bottoms, tops, python_param={
            "module": "rpn.proposal_layer", "layer": "ProposalLayer", "param_str": f"'feat_stride': {step}",
        })  # fmt: skip
    else:
        d.add("Proposal", bottoms, tops, proposal_param={
            "feat_stride": step, "ratio": ratios, "scale": scales, "min_size": smallest, "pre_nms_topn": candidates,
            "post_nms_topn": most, "nms_thresh": overlap,
        })  # fmt: skip
    found = []
    for y in range(h):
        for x in range(w):
            for a, (ratio, factor) in enumerate((r, s) for r in ratios for s in scales):
                side = round((256 / ratio) ** 0.5)
                sides = np.array([side, round(side * ratio)]) * factor
                centre = 7.5 + step * np.array([x, y]) + 0.5 + moves[0, 4 * a : 4 * a + 2, y, x] * sides
                half = np.exp(moves[0, 4 * a + 2 : 4 * a + 4, y, x]) * sides / 2
                box = np.concatenate([centre - half, centre + half])
                box = np.clip(box, 0, [width - 1, height - 1] * 2)
                if (box[2:] - box[:2] + 1 >= smallest * scale).all():
                    found.append((float(scores[0, count + a, y, x]), box))
    found.sort(key=lambda pair: -pair[0])
    kept: list[tuple[float, np.ndarray]] = []
    for chance, box in found[:candidates]:
        if all(_shared(box, other) <= overlap for _, other in kept) and len(kept) < most:
            kept.append((chance, box))
    rows = np.array([[0, *box] for _, box in kept]).reshape(-1, 5)
    wanted = [rows] if usual else [rows, np.array([[c] for c, _ in kept])]
    return d.case(*tops, wanted=wanted)


def _shared(a: np.ndarray, b: np.ndarray) -> float:
    inner = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1, 0).prod()
    return float(inner / ((a[2:] - a[:2] + 1).prod() + (b[2:] - b[:2] + 1).prod() - inner))
