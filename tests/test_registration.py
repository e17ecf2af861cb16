"""A saved model opens in a new process, in whatever order things are imported there."""

import subprocess
import sys

import pytest

from keras_bert2d.models.token_classifier import Bert2DTokenClassifier
from tests.tagged import save_tagger

OPEN = (
    "\nmodel = keras.saving.load_model(sys.argv[1])"
    "\nprint('opened', type(model).__name__, model.predict([['ev', 'bir']], verbose=0))"
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_vocabulary):
    folder = tmp_path_factory.mktemp("saved")
    tagger = Bert2DTokenClassifier.from_preset(save_tagger(folder / "preset", tiny_vocabulary, ["X"]))
    tagger.save(folder / "tagger.keras")
    return folder / "tagger.keras"


def last_line(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", f"import sys\n{program}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "imports",
    [
        "import keras, keras_bert2d",
        "import keras_bert2d\nimport keras_hub, keras",
        "import keras_bert2d.layers.encoder_block\nimport keras",
    ],
)
def test_a_saved_model_opens_in_a_new_process(saved, imports):
    assert last_line(imports + OPEN, str(saved)) == "opened Bert2DTokenClassifier [['X', 'X']]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import keras_bert2d, keras",
        "import keras_hub, keras, keras_bert2d",
        "import keras_bert2d\nimport keras_nlp, keras",
        "import keras_bert2d, tensorflow\ntensorflow.keras.layers\nimport keras",
        "import keras_bert2d\nkeras_bert2d.two_d_position_ids\nimport keras",
        "import keras_bert2d.text.positions\nimport keras",
        "from keras_bert2d.models.token_classifier import Bert2DTokenClassifier\nimport keras",
        "from keras_bert2d.text.tokenizer import Bert2DTokenizer\nimport keras",
    ],
)
def test_a_saved_model_opens_whatever_came_first(saved, imports):
    test_a_saved_model_opens_in_a_new_process(saved, imports)


def test_importing_the_package_alone_imports_nothing_heavy():
    program = (
        "import keras_bert2d, keras_bert2d.cli\nprint({'tensorflow', 'keras', 'numpy'} & set(sys.modules))"
    )
    assert last_line(program) == "set()"
