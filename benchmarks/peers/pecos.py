"""PECOS XR-Linear on TF-IDF of its own: words, pairs of words and runs of three characters."""

from __future__ import annotations

import copy
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pecos.utils.featurization.text.preprocess import Preprocessor
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy.sparse import csr_matrix

from benchmarks.peers.peer import Peer, best
from cnp_router.catalog import Catalog
from cnp_router.history import History
from cnp_router.training.corpus import usage_matrix

__all__ = ["XRLinear", "XRLinearTree"]

_TFIDF: dict[str, Any] = {
    "type": "tfidf",
    "kwargs": {
        "base_vect_configs": [
            {"ngram_range": [1, 1], "max_df_ratio": 0.98, "analyzer": "word"},
            {"ngram_range": [2, 2], "max_df_ratio": 0.98, "analyzer": "word"},
            {"ngram_range": [3, 3], "max_df_ratio": 0.98, "analyzer": "char_wb"},
        ]
    },
}
_DEEPEST = 200


class XRLinear(Peer):
    """Extreme multi-label classification: APIs are labels, and those never used are never found.

    One model a label, which is its default. A tree of labels is faster with very many of them; it
    found less on past requests out of fold.
    """

    def fit(self, catalog: Catalog, history: History) -> None:
        """Make the features and the linear models."""
        texts = [" ".join(text.split()) for text in history.texts]
        # It writes into the configuration that it is given.
        self._features = Preprocessor.train(texts, copy.deepcopy(_TFIDF))
        y = csr_matrix(usage_matrix(catalog, history), dtype=np.float32)
        self._used = np.flatnonzero(np.diff(y.tocsc().indptr))
        model = self._train(self._features.predict(texts), csr_matrix(y[:, self._used]))
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            # What only predicts, and so is several times as fast, is what was loaded.
            self._model = XLinearModel.load(folder, is_predict_only=True)
        self._n_apis = len(catalog)

    def scores(self, request: str) -> NDArray[Any]:
        """Return its scores, in [0, 1]; 0 for APIs beyond its 200 best."""
        places, found = self.top(request, _DEEPEST)
        scores = np.zeros(self._n_apis)
        scores[places] = found
        return scores

    def top(self, request: str, k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the best of its 200 best."""
        x = self._features.predict([" ".join(request.split())], threads=1)
        found = self._model.predict(x, only_topk=min(k, _DEEPEST), threads=1)
        order, scores = best(found.data, k)
        return self._used[found.indices[order]], scores

    def _train(self, x: csr_matrix, y: csr_matrix) -> Any:
        return XLinearModel.train(x, y)


class XRLinearTree(XRLinear):
    """The same on a tree of labels, as its documentation does it for very many of them.

    A fit takes time that grows with the labels of a cluster, not with all of them.
    """

    def _train(self, x: csr_matrix, y: csr_matrix) -> Any:
        labels = LabelEmbeddingFactory.create(y, x, method="pifa")
        return XLinearModel.train(x, y, C=Indexer.gen(labels))
