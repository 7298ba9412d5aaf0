PRAGMA application_id = 1650814563;
BEGIN TRANSACTION;
CREATE TABLE "agents" (
	agent_id VARCHAR NOT NULL, 
	incarnation VARCHAR NOT NULL, 
	version VARCHAR NOT NULL, 
	host VARCHAR NOT NULL, 
	online BOOLEAN NOT NULL, 
	since FLOAT NOT NULL, 
	exporter VARCHAR, 
	revoked JSON, 
	clock_ahead_s FLOAT, 
	boot_id VARCHAR, 
	CONSTRAINT pk_agents PRIMARY KEY (agent_id)
);
INSERT INTO "agents" VALUES('host-1','first','0.1.0','host-1',1,1.5,'127.0.0.1:9',NULL,-3.5,'993b1a36-047e-4841-9c33-428c133d4e9b');
INSERT INTO "agents" VALUES('host-2','first','0.1.0','host-1',0,1.5,'127.0.0.1:9','{"since": 5.0, "who": "ann", "why": "it overheats"}',-3.5,'993b1a36-047e-4841-9c33-428c133d4e9b');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0008');
CREATE TABLE "attempts" (
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	device_id VARCHAR NOT NULL, 
	device_kind VARCHAR NOT NULL, 
	"virtual" BOOLEAN NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	incarnation VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	leased_at FLOAT NOT NULL, 
	expires_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	late BOOLEAN NOT NULL, 
	cooling BOOLEAN, 
	CONSTRAINT pk_attempts PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_attempts_devices FOREIGN KEY(device_id) REFERENCES devices (device_id), 
	CONSTRAINT fk_attempts_agents FOREIGN KEY(agent_id) REFERENCES agents (agent_id), 
	CONSTRAINT fk_attempts_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "attempts" VALUES('161c6cfd37d1',1,'host-1','cpu_host',0,'host-1','first','succeeded',2000.0,2030.0,2001.5,0,NULL);
INSERT INTO "attempts" VALUES('58fb3f50ecdb',1,'phone-1','android',1,'host-1','first','succeeded',2000.0,2030.0,2001.5,0,NULL);
INSERT INTO "attempts" VALUES('11576defd3e5',1,'host-1','cpu_host',0,'host-1','first','failed',2000.0,2030.0,2001.5,0,NULL);
INSERT INTO "attempts" VALUES('835cb32f1c94',1,'host-1','cpu_host',0,'host-1','first','lost',2000.0,2030.0,2030.0,0,NULL);
INSERT INTO "attempts" VALUES('835cb32f1c94',2,'host-1','cpu_host',0,'host-1','first','lost',2040.0,2070.0,2080.0,1,NULL);
CREATE TABLE device_events (
	number INTEGER NOT NULL, 
	device_id VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	who VARCHAR NOT NULL, 
	why TEXT NOT NULL, 
	CONSTRAINT pk_device_events PRIMARY KEY (number), 
	CONSTRAINT fk_device_events_devices FOREIGN KEY(device_id) REFERENCES devices (device_id)
);
INSERT INTO "device_events" VALUES(1,'phone-1',3.0,'quarantined','ann','its screen is broken');
CREATE TABLE "devices" (
	device_id VARCHAR NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	"virtual" BOOLEAN NOT NULL, 
	labels JSON NOT NULL, 
	facts JSON NOT NULL, 
	host_cores JSON NOT NULL, 
	online BOOLEAN NOT NULL, 
	since FLOAT NOT NULL, 
	life JSON, 
	CONSTRAINT pk_devices PRIMARY KEY (device_id), 
	CONSTRAINT fk_devices_agents FOREIGN KEY(agent_id) REFERENCES agents (agent_id)
);
INSERT INTO "devices" VALUES('host-1','host-1','cpu_host',0,'{"rack": "7"}','{"cpu_model": "Xeon", "cores": 2, "ghz": 2.0, "isa": ["avx512", "amx"]}','[0, 1]',1,1.5,'{}');
INSERT INTO "devices" VALUES('phone-1','host-1','android',1,'{}','{}','[]',0,2.25,'{"quarantine": {"since": 3.0, "who": "ann", "why": "its screen is broken"}}');
CREATE TABLE measurements (
	run_id VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	counted BOOLEAN NOT NULL, 
	name VARCHAR NOT NULL, 
	value FLOAT NOT NULL, 
	unit VARCHAR NOT NULL, 
	samples JSON NOT NULL, 
	CONSTRAINT pk_measurements PRIMARY KEY (run_id, attempt, counted, name), 
	CONSTRAINT fk_measurements_outcomes FOREIGN KEY(run_id, attempt, counted) REFERENCES outcomes (run_id, attempt, counted)
);
INSERT INTO "measurements" VALUES('161c6cfd37d1',1,1,'step_time',0.25,'s','[0.25, 0.35, 0.1]');
INSERT INTO "measurements" VALUES('161c6cfd37d1',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('58fb3f50ecdb',1,1,'step_time',0.1,'s','[-0.0, 0.1, 0.1]');
INSERT INTO "measurements" VALUES('58fb3f50ecdb',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('835cb32f1c94',2,0,'step_time',3.0,'s','[3.0, 3.1, 0.1]');
INSERT INTO "measurements" VALUES('835cb32f1c94',2,0,'throughput',8.0,'images/s','[]');
CREATE TABLE outcomes (
	number INTEGER NOT NULL, 
	run_id VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	counted BOOLEAN NOT NULL, 
	type VARCHAR NOT NULL, 
	device_id VARCHAR NOT NULL, 
	workload VARCHAR NOT NULL, 
	stack VARCHAR NOT NULL, 
	scenario VARCHAR NOT NULL, 
	validity VARCHAR, 
	blame VARCHAR, 
	kind VARCHAR, 
	message TEXT, 
	started_at FLOAT NOT NULL, 
	recorded_at FLOAT NOT NULL, 
	document JSON NOT NULL, 
	CONSTRAINT pk_outcomes PRIMARY KEY (number), 
	CONSTRAINT fk_outcomes_attempts FOREIGN KEY(run_id, attempt) REFERENCES attempts (run_id, number), 
	CONSTRAINT uq_outcomes_run_id_attempt_counted UNIQUE (run_id, attempt, counted)
);
INSERT INTO "outcomes" VALUES(1,'161c6cfd37d1',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2000.5,2001.5,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}');
INSERT INTO "outcomes" VALUES(2,'58fb3f50ecdb',1,1,'result','phone-1','retinanet','eager','training','INVALID',NULL,NULL,NULL,2000.5,2001.5,'{"reasons": ["another process took 31 % of the CPU"], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}');
INSERT INTO "outcomes" VALUES(3,'11576defd3e5',1,1,'failure','host-1','retinanet','eager','training',NULL,'workload','signal','killed',2000.5,2001.5,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}');
INSERT INTO "outcomes" VALUES(4,'835cb32f1c94',2,1,'failure','host-1','retinanet','eager','training',NULL,'harness','lost','the agent was lost 2 times while it ran this',2040.0,2080.0,'{"output": "", "exit_code": null, "signal": null}');
INSERT INTO "outcomes" VALUES(5,'835cb32f1c94',2,0,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2089.0,2090.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}');
CREATE TABLE "runs" (
	run_id VARCHAR NOT NULL, 
	sweep_id VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	repeat INTEGER NOT NULL, 
	cell_key VARCHAR NOT NULL, 
	workload VARCHAR NOT NULL, 
	stack VARCHAR NOT NULL, 
	scenario VARCHAR NOT NULL, 
	knobs JSON NOT NULL, 
	selector TEXT NOT NULL, 
	deadline_s FLOAT NOT NULL, 
	created_at FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	versus JSON, 
	profiled BOOLEAN, 
	resumed_after INTEGER, 
	queued_at FLOAT, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id), 
	CONSTRAINT fk_runs_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (sweep_id)
);
INSERT INTO "runs" VALUES('161c6cfd37d1','demo-f52a6b04',0,0,'35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1000.5,'done',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('58fb3f50ecdb','demo-f52a6b04',1,1,'35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1000.5,'done',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('11576defd3e5','demo-f52a6b04',2,2,'35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1000.5,'failed',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('835cb32f1c94','demo-f52a6b04',3,3,'35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1000.5,'failed',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('69a2a4e2dc7a','demo-f52a6b04',4,4,'35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1000.5,'queued',NULL,NULL,NULL,NULL);
INSERT INTO "runs" VALUES('2208cb9de169','pairs-c85563fa',0,0,'2aa7e8998496776c','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',1800.0,1100.5,'queued','{"width": 0.1, "time_limit_s": 60.0, "stack": "eager", "knobs": {"batch": 4}}',1,NULL,NULL);
CREATE TABLE "sweeps" (
	number INTEGER NOT NULL, 
	sweep_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	generation INTEGER NOT NULL, 
	submitted_at FLOAT NOT NULL, 
	document JSON NOT NULL, 
	user VARCHAR, 
	CONSTRAINT pk_sweeps PRIMARY KEY (number), 
	CONSTRAINT uq_sweeps_sweep_id UNIQUE (sweep_id)
);
INSERT INTO "sweeps" VALUES(1,'demo-f52a6b04','demo',1,1000.125,'{"name": "demo", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 5, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','admin');
INSERT INTO "sweeps" VALUES(2,'pairs-c85563fa','pairs',1,1000.125,'{"name": "pairs", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 1, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','ann');
CREATE TABLE tokens (
	name VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	revoked_at FLOAT, 
	CONSTRAINT pk_tokens PRIMARY KEY (name)
);
INSERT INTO "tokens" VALUES('ann','abababababababababababababababababababababababababababababababab',1.0,NULL);
INSERT INTO "tokens" VALUES('bob','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',2.0,4.0);
CREATE UNIQUE INDEX ix_outcomes_one_result ON outcomes (run_id) WHERE counted AND type = 'result';
CREATE INDEX ix_outcomes_series ON outcomes (type, counted, validity, device_id, workload, stack, scenario, number);
CREATE INDEX ix_devices_agent_id ON devices (agent_id);
CREATE INDEX ix_sweeps_name ON sweeps (name);
CREATE INDEX ix_device_events_device_id ON device_events (device_id);
CREATE INDEX ix_runs_queue ON runs (sweep_id, position);
CREATE INDEX ix_runs_cell_key ON runs (cell_key);
CREATE INDEX ix_runs_series ON runs (workload, stack, scenario);
CREATE INDEX ix_runs_state ON runs (state);
CREATE INDEX ix_attempts_device_id ON attempts (device_id);
COMMIT;
