"""The tasks of the payments example: `doit snapshot` builds its contexts."""

import sdaqf_tasks

DOIT_CONFIG = sdaqf_tasks.doit_config()
context = sdaqf_tasks.pipeline()
