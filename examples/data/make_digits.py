"""Makes digits.npy, the 1797 hand-written digits that scikit-learn ships: uint8 (1797, 65), 8x8 pixels from 0 to 16, then the label.

    python3 -m venv venv && venv/bin/pip install scikit-learn==1.9.1
    venv/bin/python make_digits.py OUTPUT_FOLDER
"""

import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
table = np.concatenate([digits.data, digits.target[:, None]], axis=1)
if table.min() < 0 or table.max() > 16 or (table != np.floor(table)).any():
    sys.exit("pixels or labels are not whole numbers from 0 to 16")
np.save(pathlib.Path(sys.argv[1]) / "digits.npy", table.astype(np.uint8))
