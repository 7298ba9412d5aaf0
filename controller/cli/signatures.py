"""What each verb takes, so that completion imports no verb's module.

A test holds this to what the modules define.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SIGNATURES: Final[dict[str, str]] = {
    "up": "--label=* --agent/--no-agent --listen= --redis= --redis-password-file="
    " --metrics-address= --api-port= --api= --api-tls-cert= --api-tls-key= --api-plain"
    " --prometheus --quarantine-after= --user-runs= --user-bytes= --artifacts= --artifact-days="
    " --artifact-bytes="
    " --autoscaling-config= --phone-power-cycle= --meter= --block",
    "down": "",
    "status": "--json",
    "demo": "",
    "doctor": "--json",
    "compare": "a=side b=side --workload=workload --scenario=scenario --device=device --knob=knob*"
    " --width= --time-limit= --json",
    "plan-training": "workload=workload --batch= --device=device* --epochs-of=sweep"
    " --output/-o= --json",
    "publish": "folder= --sweep=sweep* --key= --currency= --imported",
    "login": "url= --name= --fingerprint= --token-file=",
    "completion": "shell=bash|zsh|fish",
    "agent start": "--head= --token-file= --label=* --metrics-address= --adb-server=*"
    " --cpu/--no-cpu --reconnect-timeout= --phone-power-cycle= --meter=",
    "agent list": "--json",
    "agent revoke": "agent=agent --why=",
    "agent admit": "agent=agent",
    "agent drain": "host=host --why= --wait",
    "agent undrain": "host=host --why=",
    "device list": "--json",
    "device show": "device=device --json",
    "device capabilities": "device=device --probe --build= --all-builds --json",
    "device history": "device=device --json",
    "device quarantine": "device=device --why=",
    "device release": "device=device --why= --all",
    "device bookings": "--json",
    "device probe": "device=device --why=",
    "device reserve": "device=device --for= --user=user --in= --why=",
    "device maintain": "device=device --for= --in= --why=",
    "device label": "device=device labels=*",
    "device rename": "device=device name= --clear",
    "device forget": "device=device --why=",
    "sweep new": "file=",
    "sweep validate": "file= --json",
    "sweep submit": "file= --wait --again --json",
    "sweep watch": "sweep_id=sweep",
    "sweep status": "sweep_id=sweep --tag=tag* --json --csv",
    "sweep cancel": "sweep_id=sweep",
    "sweep resume": "sweep_id=sweep",
    "sweep plan": "file= --json",
    "sweep tag": "sweep_id=sweep tags=tag* --remove=tag* --json",
    "sweep note": "sweep_id=sweep text= --remove= --json",
    "suite list": "--json",
    "suite run": "version=suite_version --device=device --tries= --task=suite_task*"
    " --stack=stack --numerics=* --dataset=* --length=normal|quick|rapid --policy=ci|lab|mlperf"
    " --task-pause= --try-pause= --surrogates --without-optional --again",
    "suite status": "--json",
    "suite show": "session=suite_session --json",
    "workload list": "--json",
    "workload show": "name=workload --json",
    "scenario list": "--json",
    "scenario show": "name=scenario --json",
    "results report": "subjects=subject* --output/-o= --imported",
    "results list": "--sweep=sweep --tag=tag* --device=device --workload=workload --stack=stack"
    " --scenario=scenario --knob=knob* --since= --until= --validity=VALID|DISTURBED|INVALID"
    " --last= --failures --imported --json --csv",
    "results import": "path= --round=",
    "results show": "run_id=run --provenance --json",
    "results explain": "run_id=run --against=sweep --json",
    "results replicate": "run_id=run --tries= --wait= --check=cache|cold-start|random-data --again"
    " --json",
    "results compare": "a=side b=side --workload=workload --scenario=scenario --device=device"
    " --knob=knob* --sweep=sweep --force --json",
    "results export": "output= --sweep=sweep --tag=tag* --device=device --workload=workload"
    " --stack=stack --scenario=scenario --knob=knob* --since= --until="
    " --validity=VALID|DISTURBED|INVALID --format=json|jsonl|csv|parquet|mlperf-mobile|app",
    "results verify": "subject=run --suite-version= --task= --json",
    "results artifacts": "run_id=run --fetch=* --output/-o= --json",
    "phone list": "--nearby --json",
    "phone connect": "address= --adb-server=",
    "phone pair": "address= code= --adb-server=",
    "phone disconnect": "phone=phone",
    "phone clean": "device=phone",
    "phone doctor": "phone=phone --policy=ci|lab|mlperf --set --yes --json",
    "phone restore": "phone=phone --json",
    "phone virtual": "--profile=virtual_phone --serial= --fault=* --connect/--no-connect"
    " --adb-server= --key= --any-key",
    "prometheus config": "folder= --controller= --token-file=",
    "dashboards build": "--output/-o= --prometheus= --path=",
    "dashboards check": "files=* --prometheus=",
    "dashboards push": "--url= --token-file= --user= --prometheus= --data-source="
    " --alerts/--no-alerts --overwrite",
    "dashboards open": "--url= --print",
    "bundle build": "name= --refresh",
    "models list": "--json",
    "models verify": "--json",
    "models add": "path= --as=model_key",
    "models fetch": "tasks=workload_with_files* --suite=suite --numerics=numerics*"
    " --weights=weights*"
    " --dataset=dataset_size* --from= --json",
    "models prepare": "name=imagenet|coco|ade20k|squad|opensr path=",
    "stacks list": "--json",
    "stacks show": "name=stack --json",
    "stacks install": "name=stack",
    "bench harness": "--pairs= --workload=device_workload --numerics=numerics --json",
    "bench compare": "--trials= --effect=* --loads= --width= --seed= --time-limit= --json",
    "bench api": "--seconds= --json",
    "kernels check": "op=op --dtype=dtype --variant=variant --json",
    "kernels bench": "op=op --dtype=dtype --variant=variant --width= --time-limit="
    " --draws= --with=* --against= --direction=both|forward|backward --policy= --json",
    "kernels sweep": "--compiled/--no-compiled",
    "profile import": "file= --output/-o= --steps= --project --against= --time-limit="
    " --top= --json",
    "profile show": "subject=run --top= --json",
    "profile diff": "a=run b=run --output/-o= --top= --json",
    "profile advise": "subject=run --output/-o= --top= --prove --time-limit="
    " --device=device --json",
    "profile budget": "subject=run --top= --json",
    "profile topdown": "file= --into= --json",
    "profile run": "workload=training_workload --stack=stack --output/-o= --knob=knob*"
    " --device=device --top= --json",
    "profile export": "subject=run form=collapsed|chrome|benchdnn --output/-o=",
    "profile report": "subjects=run* --output/-o=",
    "machine peaks": "--stack=stack --knob=knob* --again --json",
    "token create": "name= --scope=viewer|submitter|administrator",
    "token list": "--json",
    "token revoke": "name=user",
    "api serve": "--listen= --tls-cert= --tls-key= --plain",
    "store check": "",
    "store salvage": "output=",
}
"""Parameters in order. `--json` is a flag, `--width=` takes a value, `a=side` is an argument whose
values are completed as sides, `json|csv` is a choice, and `*` takes several."""

CATALOGUE, STORE = "controller.cli.catalogue_names", "controller.cli.store_names"
COMPLETERS: Final[dict[str, str]] = {
    "workload": f"{CATALOGUE}:workloads",
    "training_workload": f"{CATALOGUE}:training_workloads",
    "device_workload": f"{CATALOGUE}:device_workloads",
    "workload_with_files": f"{CATALOGUE}:workloads_with_files",
    "weights": f"{CATALOGUE}:weights",
    "model_key": f"{CATALOGUE}:model_keys",
    "stack": f"{CATALOGUE}:stacks",
    "scenario": f"{CATALOGUE}:scenarios",
    "side": f"{CATALOGUE}:sides",
    "knob": f"{CATALOGUE}:knobs",
    "numerics": f"{CATALOGUE}:numerics",
    "dataset_size": f"{CATALOGUE}:dataset_sizes",
    "suite": f"{CATALOGUE}:suites",
    "op": f"{CATALOGUE}:ops",
    "dtype": f"{CATALOGUE}:dtypes",
    "variant": f"{CATALOGUE}:variants",
    "virtual_phone": f"{CATALOGUE}:virtual_phones",
    "suite_version": f"{CATALOGUE}:suite_versions",
    "suite_task": f"{CATALOGUE}:suite_tasks",
    "suite_session": f"{STORE}:suite_sessions",
    "device": f"{STORE}:devices",
    "phone": f"{STORE}:phones",
    "agent": f"{STORE}:agents",
    "host": f"{STORE}:hosts",
    "run": f"{STORE}:runs",
    "sweep": f"{STORE}:sweeps",
    "tag": f"{STORE}:tags",
    "subject": f"{STORE}:subjects",
    "user": f"{STORE}:users",
}
"""Where the values of each kind are read: `module:function`."""

Given = Mapping[str, Any]
"""Parameters that a command line has so far, by name."""
