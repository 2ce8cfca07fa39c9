"""A JupyterHub on one machine, to try the course with: no system users, no passwords, reachable from this machine only.

try_hub.py starts it. It is not for a class: every server runs as whoever starts the hub, and anybody may log in under
any name. values.yaml has what a class needs.
"""

import os
import shutil
from pathlib import Path

FOLDER, NOTEBOOKS = Path(os.environ["HUB_FOLDER"]), Path(os.environ["HUB_NOTEBOOKS"])
COURSE = os.environ["HUB_COURSE"]
EXCHANGE, CONFIGURATION = FOLDER / "exchange", Path(__file__).resolve().parents[1] / "nbgrader_config.py"
CLASS_ACCOUNT = "grading"  # its home is the folder of the class; nobody logs in as it

SHARED = """
c = get_config()
c.CourseDirectory.course_id = {course!r}
c.Exchange.root = {exchange!r}
"""
LEARNERS = """
c.CourseDirectory.student_id = {name!r}  # nbgrader asks for the system user otherwise
"""
# Without the course's configuration Formgrader would run what students wrote: then it does not start.
TEACHERS = """
import runpy
import sys

try:
    runpy.run_path({configuration!r}, {{"get_config": get_config}})
except Exception as error:
    sys.exit(f"the course's configuration cannot be loaded: {{error!r}}")
c.ExchangeCollect.check_owner = False  # here all files belong to one system user
"""


def furnish(spawner) -> None:
    """Give a new home the notebooks of the course and nbgrader's configuration."""
    home, name = Path(spawner.home_dir), spawner.user.name
    if not (home / "course").exists():
        shutil.copytree(NOTEBOOKS, home / "course", ignore=shutil.ignore_patterns("assignments", "conftest.py", ".*"))
    config = SHARED.format(course=COURSE, exchange=str(EXCHANGE))
    if name == CLASS_ACCOUNT:
        config += TEACHERS.format(configuration=str(CONFIGURATION))
    else:
        config += LEARNERS.format(name=name)
    (home / ".jupyter").mkdir(exist_ok=True)
    (home / ".jupyter" / "nbgrader_config.py").write_text(config)


c = get_config()  # noqa: F821
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.db_url = f"sqlite:///{FOLDER / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(FOLDER / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(FOLDER / "proxy.pid")
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.concurrent_spawn_limit = 0  # all at once

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(FOLDER / "homes" / "{username}")
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}  # many kernels share the cores
c.Spawner.start_timeout = c.Spawner.http_timeout = 600
c.Spawner.pre_spawn_hook = furnish

# Teachers start, stop and open the server of the account that has the class; its Formgrader is theirs together.
c.JupyterHub.load_groups = {"teachers": {"users": ["teacher"]}, "classes": {"users": [CLASS_ACCOUNT]}}
c.JupyterHub.load_roles = [
    {
        "name": "teachers",
        "groups": ["teachers"],
        "scopes": [f"{scope}!user={CLASS_ACCOUNT}" for scope in ("access:servers", "servers", "read:users")],
    }
]
