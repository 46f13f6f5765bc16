from tests.engine.fixtures import engine as engine
from tests.engine.fixtures import engine_home as engine_home
from tests.engine.fixtures import new_project as new_project
