"""A source of rounds with numbers that are nowhere else, to be looked for in everything that leaves a party."""

import struct

import numpy as np

CONTEXT, REWARD = 0.3141592653, 0.8271828459


class Rounds:
    def contexts(self):
        return np.array([[CONTEXT, 0.25], [0.5, CONTEXT], [CONTEXT / 2, 0.125]])

    def reward(self, action):
        return REWARD


def planted():
    """The numbers as a file or a message could hold them."""
    words = [value for number in (CONTEXT, REWARD, CONTEXT / 2) for value in (number, -number)]
    texts = [repr(abs(word)).encode()[:10] for word in words]
    return {*texts, *(struct.pack(order + "d", word) for word in words for order in "<>")}


def found_in(folder):
    """Which files below a folder hold a planted number."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [str(file) for file in files if any(number in file.read_bytes() for number in planted())]


ROUNDS = Rounds()
