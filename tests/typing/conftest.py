from tests.packaging.conftest import editable as editable
from tests.packaging.conftest import installed as installed
from tests.packaging.conftest import sdist as sdist
from tests.packaging.conftest import wheel as wheel
