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
	checksum VARCHAR, 
	CONSTRAINT pk_agents PRIMARY KEY (agent_id)
);
INSERT INTO "agents" VALUES('host-1','first','0.1.0','host-1',1,1.5,'127.0.0.1:9',NULL,-3.5,'993b1a36-047e-4841-9c33-428c133d4e9b','f83e462b4bd32d4242740bd56b745742');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0011');
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
	checksum VARCHAR, 
	CONSTRAINT pk_attempts PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_attempts_devices FOREIGN KEY(device_id) REFERENCES devices (device_id), 
	CONSTRAINT fk_attempts_agents FOREIGN KEY(agent_id) REFERENCES agents (agent_id), 
	CONSTRAINT fk_attempts_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "attempts" VALUES('7dddf52ac8b8',1,'host-1','cpu_host',0,'host-1','first','succeeded',2000.0,0.0,2001.0,0,NULL,'01cc409eb8b4a4e68bb940c947180cf5');
INSERT INTO "attempts" VALUES('a67a7701e26d',1,'phone-1','android',1,'host-1','first','succeeded',2100.0,0.0,2101.0,0,NULL,'13342e176314200d5f4a1dcf5784cdb9');
INSERT INTO "attempts" VALUES('a5631c5565e9',1,'host-1','cpu_host',0,'host-1','first','succeeded',2200.0,0.0,2201.0,0,NULL,'8390e90a34a700ef10a22da2db6d3c33');
INSERT INTO "attempts" VALUES('b75fbc1b845f',1,'phone-1','android',1,'host-1','first','failed',2300.0,0.0,2301.0,0,NULL,'6aeecaa3c6cd0854fecfc58073a0e9e2');
INSERT INTO "attempts" VALUES('84783f30747d',1,'host-1','cpu_host',0,'host-1','first','lost',2400.0,0.0,2430.0,0,NULL,'14f9fc21f4b6e892405b5fa54731be16');
INSERT INTO "attempts" VALUES('84783f30747d',2,'host-1','cpu_host',0,'host-1','first','succeeded',2440.0,0.0,2450.0,0,NULL,'2189411fc2dd6cd67a8a5c3f95143588');
INSERT INTO "attempts" VALUES('1615d0c8180f',1,'phone-1','android',1,'host-1','first','succeeded',2500.0,0.0,2501.0,0,NULL,'c9670e577daa3d1a0cf7c23bbd580e6c');
INSERT INTO "attempts" VALUES('2a4bc1199a50',1,'host-1','cpu_host',0,'host-1','first','succeeded',2600.0,0.0,2601.0,0,NULL,'af868f9c4a16ae67f6513bfb3ba40f7e');
INSERT INTO "attempts" VALUES('712f7af5f562',1,'phone-1','android',1,'host-1','first','succeeded',2700.0,0.0,2701.0,0,NULL,'0cc6c85f05a3d5d832eb5cd9cf001470');
INSERT INTO "attempts" VALUES('46d0a2506381',1,'host-1','cpu_host',0,'host-1','first','succeeded',2800.0,0.0,2801.0,0,NULL,'8beb1f51cf1e407573bba67bad4dc15d');
INSERT INTO "attempts" VALUES('d8781f835a2b',1,'phone-1','android',1,'host-1','first','failed',2900.0,0.0,2901.0,0,NULL,'e8667689d4ad7abd1fc878e667b9efd7');
INSERT INTO "attempts" VALUES('e309debfbdec',1,'host-1','cpu_host',0,'host-1','first','lost',3000.0,0.0,3030.0,0,NULL,'0a40d7d97c56a9e675ba95bca7c6b77a');
INSERT INTO "attempts" VALUES('e309debfbdec',2,'host-1','cpu_host',0,'host-1','first','succeeded',3040.0,0.0,3050.0,0,NULL,'a4fab8846c726f3ba7409035b5033f84');
INSERT INTO "attempts" VALUES('fe750a3d6f12',1,'host-1','cpu_host',0,'host-1','first','succeeded',2000.0,0.0,2001.0,0,NULL,'370564a802d6ec2377acf04cc2321fe9');
INSERT INTO "attempts" VALUES('3f7109d09363',1,'phone-1','android',1,'host-1','first','succeeded',2100.0,0.0,2101.0,0,NULL,'cb86b0a582b6c18bd1d67ca7ef0bc86e');
INSERT INTO "attempts" VALUES('49f23cc2c4bf',1,'host-1','cpu_host',0,'host-1','first','succeeded',2200.0,0.0,2201.0,0,NULL,'1c44ff40186877585e98a53e4037d5e7');
INSERT INTO "attempts" VALUES('0a4b38c7435e',1,'phone-1','android',1,'host-1','first','failed',2300.0,0.0,2301.0,0,NULL,'bd15196ba7f53663e7499d9acc2534b0');
INSERT INTO "attempts" VALUES('1b2f2a13a80c',1,'host-1','cpu_host',0,'host-1','first','lost',2400.0,0.0,2430.0,0,NULL,'9a8fc741c3c36f674f92c26e0d9d38e5');
INSERT INTO "attempts" VALUES('1b2f2a13a80c',2,'host-1','cpu_host',0,'host-1','first','succeeded',2440.0,0.0,2450.0,0,NULL,'624c23d66382b53fbf293ea9a4d3872c');
INSERT INTO "attempts" VALUES('b2396cf17630',1,'phone-1','android',1,'host-1','first','succeeded',2500.0,0.0,2501.0,0,NULL,'ef3115fdddbee3d17dd578be0b777116');
INSERT INTO "attempts" VALUES('726b028bee3f',1,'host-1','cpu_host',0,'host-1','first','succeeded',2600.0,0.0,2601.0,0,NULL,'582cc23f51f816d72179911002d96bf6');
INSERT INTO "attempts" VALUES('97934f9a0d31',1,'phone-1','android',1,'host-1','first','succeeded',2700.0,0.0,2701.0,0,NULL,'5282ee4db2347e17d3b71c90d8d47ae0');
INSERT INTO "attempts" VALUES('d078eb2f4e6d',1,'host-1','cpu_host',0,'host-1','first','succeeded',2800.0,0.0,2801.0,0,NULL,'2ca0cf6aea80414416494cfe80aef61a');
INSERT INTO "attempts" VALUES('66e6d64cdcde',1,'phone-1','android',1,'host-1','first','failed',2900.0,0.0,2901.0,0,NULL,'ab38b1f6b8b8f373dae795aa12bc752b');
INSERT INTO "attempts" VALUES('f7dfd0308551',1,'host-1','cpu_host',0,'host-1','first','lost',3000.0,0.0,3030.0,0,NULL,'006768659cf84c69f6155c3c29763e5e');
INSERT INTO "attempts" VALUES('f7dfd0308551',2,'host-1','cpu_host',0,'host-1','first','succeeded',3040.0,0.0,3050.0,0,NULL,'2c0a8677184d579e4e1dc2db01bcbee1');
INSERT INTO "attempts" VALUES('d45df221b9e2',1,'host-1','cpu_host',0,'host-1','first','succeeded',2000.0,0.0,2001.0,0,NULL,'ab16d7a12255a81cbc7fbb938a00e833');
INSERT INTO "attempts" VALUES('49a9a72a18f7',1,'phone-1','android',1,'host-1','first','succeeded',2100.0,0.0,2101.0,0,NULL,'a592a9d007049f8f5e1d0d0f9f24c9e7');
INSERT INTO "attempts" VALUES('633a5dc466b8',1,'host-1','cpu_host',0,'host-1','first','succeeded',2200.0,0.0,2201.0,0,NULL,'336d0ff452a81db0e7555f9f07d1669c');
INSERT INTO "attempts" VALUES('6edbcd816a02',1,'phone-1','android',1,'host-1','first','failed',2300.0,0.0,2301.0,0,NULL,'9cdb8f0472fb6ee2f1892af182e54a33');
INSERT INTO "attempts" VALUES('a571cab2775a',1,'host-1','cpu_host',0,'host-1','first','lost',2400.0,0.0,2430.0,0,NULL,'928bae1d9447a73d3c5e3ac0e4225143');
INSERT INTO "attempts" VALUES('a571cab2775a',2,'host-1','cpu_host',0,'host-1','first','succeeded',2440.0,0.0,2450.0,0,NULL,'33b3e981c97f072d44ee76dd89c59aa5');
INSERT INTO "attempts" VALUES('d069b33a5637',1,'phone-1','android',1,'host-1','first','succeeded',2500.0,0.0,2501.0,0,NULL,'e3c2a479dc126a6c65093c0647ee1334');
INSERT INTO "attempts" VALUES('402a3cfca1d5',1,'host-1','cpu_host',0,'host-1','first','succeeded',2600.0,0.0,2601.0,0,NULL,'27e9cde6b2e2c4fa6bfdad79553a9715');
INSERT INTO "attempts" VALUES('f262247db281',1,'phone-1','android',1,'host-1','first','succeeded',2700.0,0.0,2701.0,0,NULL,'d8a5ec28474da39bf14472003bb65464');
INSERT INTO "attempts" VALUES('8d8483cdbc38',1,'host-1','cpu_host',0,'host-1','first','succeeded',2800.0,0.0,2801.0,0,NULL,'2025fd70080b6238705aa76cf9527f72');
INSERT INTO "attempts" VALUES('9316adbf3ecf',1,'phone-1','android',1,'host-1','first','failed',2900.0,0.0,2901.0,0,NULL,'6a8be350ddb736860b1d2e6802be8b01');
INSERT INTO "attempts" VALUES('b23ea8cd5a7b',1,'host-1','cpu_host',0,'host-1','first','lost',3000.0,0.0,3030.0,0,NULL,'3d0b416a07d06d2914e4faf2dcff25e3');
INSERT INTO "attempts" VALUES('b23ea8cd5a7b',2,'host-1','cpu_host',0,'host-1','first','succeeded',3040.0,0.0,3050.0,0,NULL,'0e3c1ab9ed64b4a04a6f78412ffc761d');
INSERT INTO "attempts" VALUES('184cb22283a6',1,'host-1','cpu_host',0,'host-1','first','succeeded',2000.0,0.0,2001.0,0,NULL,'2b7e49de30f1959d8738097414852b0b');
INSERT INTO "attempts" VALUES('f108c139ac02',1,'phone-1','android',1,'host-1','first','succeeded',2100.0,0.0,2101.0,0,NULL,'d43a55a79885415cdeb6a835666109cd');
INSERT INTO "attempts" VALUES('ded27a8f0823',1,'host-1','cpu_host',0,'host-1','first','succeeded',2200.0,0.0,2201.0,0,NULL,'94457bace73ba5bb26ada27718de90ae');
INSERT INTO "attempts" VALUES('c60455301525',1,'phone-1','android',1,'host-1','first','failed',2300.0,0.0,2301.0,0,NULL,'4b784447d0f1fea5cc9444a733b97a0e');
INSERT INTO "attempts" VALUES('10ee93885b29',1,'host-1','cpu_host',0,'host-1','first','lost',2400.0,0.0,2430.0,0,NULL,'7ad6c39d6d248075628d4e82172aee7b');
INSERT INTO "attempts" VALUES('10ee93885b29',2,'host-1','cpu_host',0,'host-1','first','succeeded',2440.0,0.0,2450.0,0,NULL,'af1b6c7e7f15c668ad3a5f9316c2200c');
INSERT INTO "attempts" VALUES('c6440dc86a6d',1,'phone-1','android',1,'host-1','first','succeeded',2500.0,0.0,2501.0,0,NULL,'09ba53df5a2e4bbeceb3b8c8f90c40aa');
INSERT INTO "attempts" VALUES('18c2ddb97a2a',1,'host-1','cpu_host',0,'host-1','first','succeeded',2600.0,0.0,2601.0,0,NULL,'ce75580cd337ff0d55971655028773ed');
INSERT INTO "attempts" VALUES('1056c3753c56',1,'phone-1','android',1,'host-1','first','succeeded',2700.0,0.0,2701.0,0,NULL,'28801f52adc454c9c06de656f4e7b222');
INSERT INTO "attempts" VALUES('bd9013faea42',1,'host-1','cpu_host',0,'host-1','first','succeeded',2800.0,0.0,2801.0,0,NULL,'958ea8e961534df4ed84ad1d728ca991');
INSERT INTO "attempts" VALUES('6e4984ffc2c7',1,'phone-1','android',1,'host-1','first','failed',2900.0,0.0,2901.0,0,NULL,'989a734e230c36e9e331997c06e948e5');
INSERT INTO "attempts" VALUES('5ee5905a884a',1,'host-1','cpu_host',0,'host-1','first','lost',3000.0,0.0,3030.0,0,NULL,'166af38f533b59324ca79b0223869d58');
INSERT INTO "attempts" VALUES('5ee5905a884a',2,'host-1','cpu_host',0,'host-1','first','succeeded',3040.0,0.0,3050.0,0,NULL,'5110821ab90915c557073fb51a536451');
CREATE TABLE cells (
	cell_key VARCHAR NOT NULL, 
	workload VARCHAR NOT NULL, 
	stack VARCHAR NOT NULL, 
	scenario VARCHAR NOT NULL, 
	knobs JSON NOT NULL, 
	selector TEXT NOT NULL, 
	versus JSON, 
	profiled BOOLEAN, 
	CONSTRAINT pk_cells PRIMARY KEY (cell_key)
);
INSERT INTO "cells" VALUES('35c4496e50407e18','retinanet','eager','training','{"batch": 2, "channels_last": true, "lr": 0.1, "dtype": "bf16"}','any',NULL,NULL);
CREATE TABLE "device_events" (
	number INTEGER NOT NULL, 
	device_id VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	who VARCHAR NOT NULL, 
	why TEXT NOT NULL, 
	checksum VARCHAR, 
	CONSTRAINT pk_device_events PRIMARY KEY (number), 
	CONSTRAINT fk_device_events_devices FOREIGN KEY(device_id) REFERENCES devices (device_id)
);
INSERT INTO "device_events" VALUES(1,'phone-1',3.0,'quarantined','ann','by hand','764e1b6cd2e9fd2e0e1cb30b1363cd47');
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
	checksum VARCHAR, 
	CONSTRAINT pk_devices PRIMARY KEY (device_id), 
	CONSTRAINT fk_devices_agents FOREIGN KEY(agent_id) REFERENCES agents (agent_id)
);
INSERT INTO "devices" VALUES('host-1','host-1','cpu_host',0,'{"rack": "7"}','{"cpu_model": "Xeon", "cores": 2, "ghz": 2.0, "isa": ["avx512", "amx"]}','[0, 1]',1,1.5,'{}','d88be6c4a0fdf2e77bb6665b6bc7d6b1');
INSERT INTO "devices" VALUES('phone-1','host-1','android',1,'{}','{}','[]',0,2.25,'{"quarantine": {"since": 3.0, "who": "ann", "why": "its screen is broken"}}','7e1a4bd7cf30989f42b154c10874f35a');
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
INSERT INTO "measurements" VALUES('7dddf52ac8b8',1,1,'step_time',0.1,'s','[0.1, 0.2, 0.1]');
INSERT INTO "measurements" VALUES('7dddf52ac8b8',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('a67a7701e26d',1,1,'step_time',2.42857142857142854763e-01,'s','[0.24285714285714285, 0.34285714285714286, 0.1]');
INSERT INTO "measurements" VALUES('a67a7701e26d',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('a5631c5565e9',1,1,'step_time',3.8571428571428567622e-01,'s','[0.3857142857142857, 0.48571428571428565, 0.1]');
INSERT INTO "measurements" VALUES('a5631c5565e9',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('84783f30747d',2,1,'step_time',6.71428571428571374646e-01,'s','[0.6714285714285714, 0.7714285714285714, 0.1]');
INSERT INTO "measurements" VALUES('84783f30747d',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('1615d0c8180f',1,1,'step_time',8.1428571428571427937e-01,'s','[0.8142857142857143, 0.9142857142857143, 0.1]');
INSERT INTO "measurements" VALUES('1615d0c8180f',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('2a4bc1199a50',1,1,'step_time',9.57142857142857073071e-01,'s','[0.9571428571428571, 1.0571428571428572, 0.1]');
INSERT INTO "measurements" VALUES('2a4bc1199a50',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('712f7af5f562',1,1,'step_time',1.1,'s','[1.1, 1.2000000000000002, 0.1]');
INSERT INTO "measurements" VALUES('712f7af5f562',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('46d0a2506381',1,1,'step_time',1.24285714285714288251e+00,'s','[1.2428571428571429, 1.342857142857143, 0.1]');
INSERT INTO "measurements" VALUES('46d0a2506381',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('e309debfbdec',2,1,'step_time',1.52857142857142869196e+00,'s','[1.5285714285714287, 1.6285714285714288, 0.1]');
INSERT INTO "measurements" VALUES('e309debfbdec',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('fe750a3d6f12',1,1,'step_time',0.1,'s','[0.1, 0.2, 0.1]');
INSERT INTO "measurements" VALUES('fe750a3d6f12',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('3f7109d09363',1,1,'step_time',2.42857142857142854763e-01,'s','[0.24285714285714285, 0.34285714285714286, 0.1]');
INSERT INTO "measurements" VALUES('3f7109d09363',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('49f23cc2c4bf',1,1,'step_time',3.8571428571428567622e-01,'s','[0.3857142857142857, 0.48571428571428565, 0.1]');
INSERT INTO "measurements" VALUES('49f23cc2c4bf',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('1b2f2a13a80c',2,1,'step_time',6.71428571428571374646e-01,'s','[0.6714285714285714, 0.7714285714285714, 0.1]');
INSERT INTO "measurements" VALUES('1b2f2a13a80c',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('b2396cf17630',1,1,'step_time',8.1428571428571427937e-01,'s','[0.8142857142857143, 0.9142857142857143, 0.1]');
INSERT INTO "measurements" VALUES('b2396cf17630',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('726b028bee3f',1,1,'step_time',9.57142857142857073071e-01,'s','[0.9571428571428571, 1.0571428571428572, 0.1]');
INSERT INTO "measurements" VALUES('726b028bee3f',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('97934f9a0d31',1,1,'step_time',1.1,'s','[1.1, 1.2000000000000002, 0.1]');
INSERT INTO "measurements" VALUES('97934f9a0d31',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('d078eb2f4e6d',1,1,'step_time',1.24285714285714288251e+00,'s','[1.2428571428571429, 1.342857142857143, 0.1]');
INSERT INTO "measurements" VALUES('d078eb2f4e6d',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('f7dfd0308551',2,1,'step_time',1.52857142857142869196e+00,'s','[1.5285714285714287, 1.6285714285714288, 0.1]');
INSERT INTO "measurements" VALUES('f7dfd0308551',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('d45df221b9e2',1,1,'step_time',0.1,'s','[0.1, 0.2, 0.1]');
INSERT INTO "measurements" VALUES('d45df221b9e2',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('49a9a72a18f7',1,1,'step_time',2.42857142857142854763e-01,'s','[0.24285714285714285, 0.34285714285714286, 0.1]');
INSERT INTO "measurements" VALUES('49a9a72a18f7',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('633a5dc466b8',1,1,'step_time',3.8571428571428567622e-01,'s','[0.3857142857142857, 0.48571428571428565, 0.1]');
INSERT INTO "measurements" VALUES('633a5dc466b8',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('a571cab2775a',2,1,'step_time',6.71428571428571374646e-01,'s','[0.6714285714285714, 0.7714285714285714, 0.1]');
INSERT INTO "measurements" VALUES('a571cab2775a',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('d069b33a5637',1,1,'step_time',8.1428571428571427937e-01,'s','[0.8142857142857143, 0.9142857142857143, 0.1]');
INSERT INTO "measurements" VALUES('d069b33a5637',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('402a3cfca1d5',1,1,'step_time',9.57142857142857073071e-01,'s','[0.9571428571428571, 1.0571428571428572, 0.1]');
INSERT INTO "measurements" VALUES('402a3cfca1d5',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('f262247db281',1,1,'step_time',1.1,'s','[1.1, 1.2000000000000002, 0.1]');
INSERT INTO "measurements" VALUES('f262247db281',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('8d8483cdbc38',1,1,'step_time',1.24285714285714288251e+00,'s','[1.2428571428571429, 1.342857142857143, 0.1]');
INSERT INTO "measurements" VALUES('8d8483cdbc38',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('b23ea8cd5a7b',2,1,'step_time',1.52857142857142869196e+00,'s','[1.5285714285714287, 1.6285714285714288, 0.1]');
INSERT INTO "measurements" VALUES('b23ea8cd5a7b',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('184cb22283a6',1,1,'step_time',0.1,'s','[0.1, 0.2, 0.1]');
INSERT INTO "measurements" VALUES('184cb22283a6',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('f108c139ac02',1,1,'step_time',2.42857142857142854763e-01,'s','[0.24285714285714285, 0.34285714285714286, 0.1]');
INSERT INTO "measurements" VALUES('f108c139ac02',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('ded27a8f0823',1,1,'step_time',3.8571428571428567622e-01,'s','[0.3857142857142857, 0.48571428571428565, 0.1]');
INSERT INTO "measurements" VALUES('ded27a8f0823',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('10ee93885b29',2,1,'step_time',6.71428571428571374646e-01,'s','[0.6714285714285714, 0.7714285714285714, 0.1]');
INSERT INTO "measurements" VALUES('10ee93885b29',2,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('c6440dc86a6d',1,1,'step_time',8.1428571428571427937e-01,'s','[0.8142857142857143, 0.9142857142857143, 0.1]');
INSERT INTO "measurements" VALUES('c6440dc86a6d',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('18c2ddb97a2a',1,1,'step_time',9.57142857142857073071e-01,'s','[0.9571428571428571, 1.0571428571428572, 0.1]');
INSERT INTO "measurements" VALUES('18c2ddb97a2a',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('1056c3753c56',1,1,'step_time',1.1,'s','[1.1, 1.2000000000000002, 0.1]');
INSERT INTO "measurements" VALUES('1056c3753c56',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('bd9013faea42',1,1,'step_time',1.24285714285714288251e+00,'s','[1.2428571428571429, 1.342857142857143, 0.1]');
INSERT INTO "measurements" VALUES('bd9013faea42',1,1,'throughput',8.0,'images/s','[]');
INSERT INTO "measurements" VALUES('5ee5905a884a',2,1,'step_time',1.52857142857142869196e+00,'s','[1.5285714285714287, 1.6285714285714288, 0.1]');
INSERT INTO "measurements" VALUES('5ee5905a884a',2,1,'throughput',8.0,'images/s','[]');
CREATE TABLE "outcomes" (
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
	checksum VARCHAR, 
	CONSTRAINT pk_outcomes PRIMARY KEY (number), 
	CONSTRAINT fk_outcomes_attempts FOREIGN KEY(run_id, attempt) REFERENCES attempts (run_id, number), 
	CONSTRAINT uq_outcomes_run_id_attempt_counted UNIQUE (run_id, attempt, counted)
);
INSERT INTO "outcomes" VALUES(1,'7dddf52ac8b8',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2000.0,2001.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','8e8ac710b47f63a529aa8da2567a96c0');
INSERT INTO "outcomes" VALUES(2,'a67a7701e26d',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2100.0,2101.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','545243450204cb86fa8329b26c008e5b');
INSERT INTO "outcomes" VALUES(3,'a5631c5565e9',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2200.0,2201.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','ffa45f6749149b669bb6bfcbf94fd099');
INSERT INTO "outcomes" VALUES(4,'b75fbc1b845f',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2300.0,2301.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','b85b2b40dc21b657cedc6ccbec33695c');
INSERT INTO "outcomes" VALUES(5,'84783f30747d',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2449.0,2450.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','af9c20d053f72ab7db9027044a0b0263');
INSERT INTO "outcomes" VALUES(6,'1615d0c8180f',1,1,'result','phone-1','retinanet','eager','training','INVALID',NULL,NULL,NULL,2500.0,2501.0,'{"reasons": ["another process took 31 % of the CPU"], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','3ed05ead116af766a777c7431ba1d46e');
INSERT INTO "outcomes" VALUES(7,'2a4bc1199a50',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2600.0,2601.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','d9921071730a0672f56b1568e6912c4d');
INSERT INTO "outcomes" VALUES(8,'712f7af5f562',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2700.0,2701.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','83b92782636becab7262b207761b75dd');
INSERT INTO "outcomes" VALUES(9,'46d0a2506381',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2800.0,2801.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','e7482c0ff335ba2e49b14c347afa9e5c');
INSERT INTO "outcomes" VALUES(10,'d8781f835a2b',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2900.0,2901.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','6a2de285a80d5e099efbb00251873625');
INSERT INTO "outcomes" VALUES(11,'e309debfbdec',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,3049.0,3050.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','ad04f525d1f8f3be7e09552e7c2d1e17');
INSERT INTO "outcomes" VALUES(12,'fe750a3d6f12',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2000.0,2001.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','29e0e0a13838ea11f00aba40698c2eea');
INSERT INTO "outcomes" VALUES(13,'3f7109d09363',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2100.0,2101.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','22fde18d1cbc8e95b6800d334e879b42');
INSERT INTO "outcomes" VALUES(14,'49f23cc2c4bf',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2200.0,2201.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','dad7fe2736f55eb1b3c6ece2fcca7ce7');
INSERT INTO "outcomes" VALUES(15,'0a4b38c7435e',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2300.0,2301.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','34803dc7f3b570076cb677caa5f5ef81');
INSERT INTO "outcomes" VALUES(16,'1b2f2a13a80c',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2449.0,2450.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','797d4c3e5259d36cac9fd86ea686de35');
INSERT INTO "outcomes" VALUES(17,'b2396cf17630',1,1,'result','phone-1','retinanet','eager','training','INVALID',NULL,NULL,NULL,2500.0,2501.0,'{"reasons": ["another process took 31 % of the CPU"], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','f14f61ee2a1b17a8a91810399b61269a');
INSERT INTO "outcomes" VALUES(18,'726b028bee3f',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2600.0,2601.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','ee39e34f4ab58e8d9eabde8a06bbe8b8');
INSERT INTO "outcomes" VALUES(19,'97934f9a0d31',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2700.0,2701.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','6c6f29b7a26b0a955f8a2e072fa80410');
INSERT INTO "outcomes" VALUES(20,'d078eb2f4e6d',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2800.0,2801.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','c378e009d7810fe3ccdb3634bb2c1467');
INSERT INTO "outcomes" VALUES(21,'66e6d64cdcde',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2900.0,2901.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','799239c2316de2eb7d6520011af2d98e');
INSERT INTO "outcomes" VALUES(22,'f7dfd0308551',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,3049.0,3050.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','601115218c3fff4c33eb2d61de5d01ac');
INSERT INTO "outcomes" VALUES(23,'d45df221b9e2',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2000.0,2001.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','b917738dd32d9d29fa214119092b167a');
INSERT INTO "outcomes" VALUES(24,'49a9a72a18f7',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2100.0,2101.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','5ae694fe1eecd8ac17acd09caf1841d6');
INSERT INTO "outcomes" VALUES(25,'633a5dc466b8',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2200.0,2201.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','3308b1d4e048406d473ef2e362b5ea93');
INSERT INTO "outcomes" VALUES(26,'6edbcd816a02',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2300.0,2301.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','e446b2605b0dcde7b404f9623fa2d629');
INSERT INTO "outcomes" VALUES(27,'a571cab2775a',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2449.0,2450.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','d5a7f041ebb1ad7b88e30c4bcb840d61');
INSERT INTO "outcomes" VALUES(28,'d069b33a5637',1,1,'result','phone-1','retinanet','eager','training','INVALID',NULL,NULL,NULL,2500.0,2501.0,'{"reasons": ["another process took 31 % of the CPU"], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','53fa72536d0e10d666b212121c007013');
INSERT INTO "outcomes" VALUES(29,'402a3cfca1d5',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2600.0,2601.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','4e84062b98c26cdc527b7272125ef574');
INSERT INTO "outcomes" VALUES(30,'f262247db281',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2700.0,2701.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','6e6ab67123aad7b1c8b3047dc0b6a845');
INSERT INTO "outcomes" VALUES(31,'8d8483cdbc38',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2800.0,2801.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','c03af10d22da045cc11446621a29955c');
INSERT INTO "outcomes" VALUES(32,'9316adbf3ecf',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2900.0,2901.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','45576c4aa64eb915b6f73e35114679df');
INSERT INTO "outcomes" VALUES(33,'b23ea8cd5a7b',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,3049.0,3050.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','f0c492c8042d7770696766353bb60dea');
INSERT INTO "outcomes" VALUES(34,'184cb22283a6',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2000.0,2001.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','0f84d3dafffceba693b9de90d303a8f7');
INSERT INTO "outcomes" VALUES(35,'f108c139ac02',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2100.0,2101.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','efe0f6098451903a831478494c6c0097');
INSERT INTO "outcomes" VALUES(36,'ded27a8f0823',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2200.0,2201.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','909abf4a7edc71b25d54aba074fa27f9');
INSERT INTO "outcomes" VALUES(37,'c60455301525',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2300.0,2301.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','5b2a1227c9f8dd41c7229ada0f87e3b8');
INSERT INTO "outcomes" VALUES(38,'10ee93885b29',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2449.0,2450.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','d25c2a511fca8c102c7f190f47e0800c');
INSERT INTO "outcomes" VALUES(39,'c6440dc86a6d',1,1,'result','phone-1','retinanet','eager','training','INVALID',NULL,NULL,NULL,2500.0,2501.0,'{"reasons": ["another process took 31 % of the CPU"], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','1499a694a98ec4982743719878dc02be');
INSERT INTO "outcomes" VALUES(40,'18c2ddb97a2a',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2600.0,2601.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','356d55340c380799aaf1eb5bc5f2f562');
INSERT INTO "outcomes" VALUES(41,'1056c3753c56',1,1,'result','phone-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2700.0,2701.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','e371145e3303ab844d043334e1c4b595');
INSERT INTO "outcomes" VALUES(42,'bd9013faea42',1,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,2800.0,2801.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','76051013b159b61bcfd7589c8e950ea4');
INSERT INTO "outcomes" VALUES(43,'6e4984ffc2c7',1,1,'failure','phone-1','retinanet','eager','training',NULL,'workload','signal','killed',2900.0,2901.0,'{"output": "t\u00f6\u00f6\n\u0000", "exit_code": null, "signal": 9}','80bb962869e11ef739a47b809045d97c');
INSERT INTO "outcomes" VALUES(44,'5ee5905a884a',2,1,'result','host-1','retinanet','eager','training','VALID',NULL,NULL,NULL,3049.0,3050.0,'{"reasons": [], "environment": {"governor": null, "threads": 2, "load": 0.5, "numa": [0, 1], "smt": false}, "artefacts": {"profile": "artefacts/profile.json"}, "pairs": [], "profile": null}','51d2ff65ccf3b82a0f98bb44562d0435');
CREATE TABLE "runs" (
	run_id VARCHAR NOT NULL, 
	sweep_id VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	repeat INTEGER NOT NULL, 
	cell_key VARCHAR NOT NULL, 
	deadline_s FLOAT NOT NULL, 
	created_at FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	resumed_after INTEGER, 
	queued_at FLOAT, 
	checksum VARCHAR, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id), 
	CONSTRAINT fk_runs_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (sweep_id), 
	CONSTRAINT fk_runs_cells FOREIGN KEY(cell_key) REFERENCES cells (cell_key)
);
INSERT INTO "runs" VALUES('7dddf52ac8b8','demo-32afe2d1',0,0,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'5a66ee572f2c456eb1167be073e2a6e2');
INSERT INTO "runs" VALUES('a67a7701e26d','demo-32afe2d1',1,1,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'1499711162336a50797aec8ab39f2825');
INSERT INTO "runs" VALUES('a5631c5565e9','demo-32afe2d1',2,2,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'5534b45f23c16f87961df603a47e31e9');
INSERT INTO "runs" VALUES('b75fbc1b845f','demo-32afe2d1',3,3,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'cfa9cf7bad722cbb7d0d09da9ce9ca89');
INSERT INTO "runs" VALUES('84783f30747d','demo-32afe2d1',4,4,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'c48d0104bb397ba259516147f86d0bcc');
INSERT INTO "runs" VALUES('1615d0c8180f','demo-32afe2d1',5,5,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'e31abc50639cb92f6f0ccee9582be325');
INSERT INTO "runs" VALUES('2a4bc1199a50','demo-32afe2d1',6,6,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'00138ac2e0e0ba708ce8869277aeb28e');
INSERT INTO "runs" VALUES('712f7af5f562','demo-32afe2d1',7,7,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'c3404497ae252f11e9a2f11074206b2a');
INSERT INTO "runs" VALUES('46d0a2506381','demo-32afe2d1',8,8,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'b884d1a9e22128e04c199547f6f7f755');
INSERT INTO "runs" VALUES('d8781f835a2b','demo-32afe2d1',9,9,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'d0d0c9a420f34f370ec6490314289393');
INSERT INTO "runs" VALUES('e309debfbdec','demo-32afe2d1',10,10,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'88ff63f58ef417bd4f58a115f34527ef');
INSERT INTO "runs" VALUES('fe750a3d6f12','demo-7164eb08',0,0,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'94076425e07764ac5b6f01dfce2392ba');
INSERT INTO "runs" VALUES('3f7109d09363','demo-7164eb08',1,1,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'cfddad2e9e61415ebf164aee3e4a9178');
INSERT INTO "runs" VALUES('49f23cc2c4bf','demo-7164eb08',2,2,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'61efe530d1ae63f7b92eed781f011ba1');
INSERT INTO "runs" VALUES('0a4b38c7435e','demo-7164eb08',3,3,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'eebf29f72439e8dc4e060052752351e3');
INSERT INTO "runs" VALUES('1b2f2a13a80c','demo-7164eb08',4,4,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'ccec0872bf595efe29b4093dc3d808ca');
INSERT INTO "runs" VALUES('b2396cf17630','demo-7164eb08',5,5,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'cb7d75ffad957d4612fc28945fc26f5b');
INSERT INTO "runs" VALUES('726b028bee3f','demo-7164eb08',6,6,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'1abbadc6b493faeac492a8da26396e60');
INSERT INTO "runs" VALUES('97934f9a0d31','demo-7164eb08',7,7,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'c243ab1c49ea59c55063ed8c932afe6d');
INSERT INTO "runs" VALUES('d078eb2f4e6d','demo-7164eb08',8,8,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'27007733bc809614bbe59f4f1665ff17');
INSERT INTO "runs" VALUES('66e6d64cdcde','demo-7164eb08',9,9,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'3e3655d286a370da90a3f8a078757bf5');
INSERT INTO "runs" VALUES('f7dfd0308551','demo-7164eb08',10,10,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'651bd8a569beda1873d67a5889d11172');
INSERT INTO "runs" VALUES('d45df221b9e2','demo-c3948ffe',0,0,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'73cb8884f797133bbf0e72d49a6bd5bc');
INSERT INTO "runs" VALUES('49a9a72a18f7','demo-c3948ffe',1,1,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'b45cabc18e50dc1836423f9f28322996');
INSERT INTO "runs" VALUES('633a5dc466b8','demo-c3948ffe',2,2,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'9f393bf02bba8f0c17583e09a1a1920e');
INSERT INTO "runs" VALUES('6edbcd816a02','demo-c3948ffe',3,3,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'06432d3a1a6ed353866b38bf3f6d8716');
INSERT INTO "runs" VALUES('a571cab2775a','demo-c3948ffe',4,4,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'c7c5362da9d4b7e86aef4b0319693436');
INSERT INTO "runs" VALUES('d069b33a5637','demo-c3948ffe',5,5,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'edc3306c001288dbb529a5917ef4551d');
INSERT INTO "runs" VALUES('402a3cfca1d5','demo-c3948ffe',6,6,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'b1b30f1f5522433991628fe6c4cd0228');
INSERT INTO "runs" VALUES('f262247db281','demo-c3948ffe',7,7,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'0654dab15a7da8c01c6d5631c2c63e31');
INSERT INTO "runs" VALUES('8d8483cdbc38','demo-c3948ffe',8,8,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'4dfcbc2a89a0b8db5442e1abde16f311');
INSERT INTO "runs" VALUES('9316adbf3ecf','demo-c3948ffe',9,9,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'ec08f0d1402e232da68b22187143bdc6');
INSERT INTO "runs" VALUES('b23ea8cd5a7b','demo-c3948ffe',10,10,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'23d30a64fdef854e4349c626c5e54394');
INSERT INTO "runs" VALUES('184cb22283a6','demo-dd45f37b',0,0,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'13415f8aa633508262f9edb39c301034');
INSERT INTO "runs" VALUES('f108c139ac02','demo-dd45f37b',1,1,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'2fd583ea7c7580b3771bffb4c381af9f');
INSERT INTO "runs" VALUES('ded27a8f0823','demo-dd45f37b',2,2,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'9e1aac3a4fb639d9c26d96623c3aa768');
INSERT INTO "runs" VALUES('c60455301525','demo-dd45f37b',3,3,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'5b7e9f08f727db22454d58e11ef91e11');
INSERT INTO "runs" VALUES('10ee93885b29','demo-dd45f37b',4,4,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'edeb05480ea34430f46a7677be985450');
INSERT INTO "runs" VALUES('c6440dc86a6d','demo-dd45f37b',5,5,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'04bb3823527477048d136a4c253133a5');
INSERT INTO "runs" VALUES('18c2ddb97a2a','demo-dd45f37b',6,6,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'6fb0e7861a523db2dfe97bf234307000');
INSERT INTO "runs" VALUES('1056c3753c56','demo-dd45f37b',7,7,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'685058f3713a8d58defb7a299613e7a8');
INSERT INTO "runs" VALUES('bd9013faea42','demo-dd45f37b',8,8,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'ff666903c9ca00d300ebd86d8419d941');
INSERT INTO "runs" VALUES('6e4984ffc2c7','demo-dd45f37b',9,9,'35c4496e50407e18',1800.0,1000.5,'failed',NULL,NULL,'9d7c01a0f7619b1666193386619104ec');
INSERT INTO "runs" VALUES('5ee5905a884a','demo-dd45f37b',10,10,'35c4496e50407e18',1800.0,1000.5,'done',NULL,NULL,'710cb2079a5cf7317a1aa3e49051dce7');
CREATE TABLE "sweeps" (
	number INTEGER NOT NULL, 
	sweep_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	generation INTEGER NOT NULL, 
	submitted_at FLOAT NOT NULL, 
	document JSON NOT NULL, 
	user VARCHAR, 
	runs INTEGER, 
	checksum VARCHAR, 
	CONSTRAINT pk_sweeps PRIMARY KEY (number), 
	CONSTRAINT uq_sweeps_sweep_id UNIQUE (sweep_id)
);
INSERT INTO "sweeps" VALUES(1,'demo-32afe2d1','demo',1,1000.125,'{"name": "demo", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 12, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','admin',12,'c1405c72d5294bd6db15d382f79e30b7');
INSERT INTO "sweeps" VALUES(2,'demo-7164eb08','demo',2,1000.125,'{"name": "demo", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 12, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','admin',12,'19fb7aad860c4b32de8a7a2de1ce4f91');
INSERT INTO "sweeps" VALUES(3,'demo-c3948ffe','demo',3,1000.125,'{"name": "demo", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 12, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','admin',12,'27da3f1336de902f59f6b18bf2dc9b81');
INSERT INTO "sweeps" VALUES(4,'demo-dd45f37b','demo',4,1000.125,'{"name": "demo", "description": "", "workload": ["retinanet"], "stack": ["eager"], "scenario": ["training"], "knobs": {"batch": [2, 4], "lr": [0.1]}, "recipes": {}, "devices": ["any"], "run_on": "any", "repeats": 12, "deadline_s": 1800.0, "baseline": {}, "paired": null, "profile": null, "priority": null}','admin',12,'1ae6569c8f3996494c4cd37cc50b6735');
CREATE TABLE "tokens" (
	name VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	revoked_at FLOAT, 
	checksum VARCHAR, 
	CONSTRAINT pk_tokens PRIMARY KEY (name)
);
INSERT INTO "tokens" VALUES('ann','abababababababababababababababababababababababababababababababab',1.0,NULL,'2b078e12ca89411262f69c0e034deb2d');
INSERT INTO "tokens" VALUES('bob','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',2.0,4.0,'182f91823abe8e0774742bfbe3469a1f');
CREATE TABLE unleased (
	sweep_id VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	deadline_s FLOAT NOT NULL, 
	repeats INTEGER NOT NULL, 
	cells BLOB NOT NULL, 
	spans JSON NOT NULL, 
	checksum VARCHAR, 
	CONSTRAINT pk_unleased PRIMARY KEY (sweep_id, created_at), 
	CONSTRAINT fk_unleased_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (sweep_id)
);
INSERT INTO "unleased" VALUES('demo-32afe2d1',1000.5,1800.0,12,X'78DA2DCBDD0AC2300C05E077C9759075EAFC79955224DDE2562851DA8C31C47737052FBE90C3493EA01433C3DDFB2EA077A637477332E7BFC15CCCD5DC4240D85E65AAED0B22E9B800C2B89008E7FAC854D5722E3626DDDF0C765F589390706B98666EA5164A9264B6956407943567EC51CBCAD81D1C427CBA01C2F7074A6E3318','[[11], [1, "queued", null, null]]','336edb0bc2c8ac776e8f04b0c535c646');
INSERT INTO "unleased" VALUES('demo-7164eb08',1000.5,1800.0,12,X'78DA2DCBDD0AC2300C05E077C9759075EAFC79955224DDE2562851DA8C31C47737052FBE90C3493EA01433C3DDFB2EA077A637477332E7BFC15CCCD5DC4240D85E65AAED0B22E9B800C2B89008E7FAC854D5722E3626DDDF0C765F589390706B98666EA5164A9264B6956407943567EC51CBCAD81D1C427CBA01C2F7074A6E3318','[[11], [1, "queued", null, null]]','53e82455257a3efbf81b0acbc9c7b57f');
INSERT INTO "unleased" VALUES('demo-c3948ffe',1000.5,1800.0,12,X'78DA2DCBDD0AC2300C05E077C9759075EAFC79955224DDE2562851DA8C31C47737052FBE90C3493EA01433C3DDFB2EA077A637477332E7BFC15CCCD5DC4240D85E65AAED0B22E9B800C2B89008E7FAC854D5722E3626DDDF0C765F589390706B98666EA5164A9264B6956407943567EC51CBCAD81D1C427CBA01C2F7074A6E3318','[[11], [1, "queued", null, null]]','96d1e43585b6aa38d1efe2b8d2a60292');
INSERT INTO "unleased" VALUES('demo-dd45f37b',1000.5,1800.0,12,X'78DA2DCBDD0AC2300C05E077C9759075EAFC79955224DDE2562851DA8C31C47737052FBE90C3493EA01433C3DDFB2EA077A637477332E7BFC15CCCD5DC4240D85E65AAED0B22E9B800C2B89008E7FAC854D5722E3626DDDF0C765F589390706B98666EA5164A9264B6956407943567EC51CBCAD81D1C427CBA01C2F7074A6E3318','[[11], [1, "queued", null, null]]','9a469bc39c00278172ae363b15ee7438');
CREATE INDEX ix_devices_agent_id ON devices (agent_id);
CREATE INDEX ix_device_events_device_id ON device_events (device_id);
CREATE INDEX ix_sweeps_name ON sweeps (name);
CREATE INDEX ix_attempts_device_id ON attempts (device_id);
CREATE INDEX ix_outcomes_series ON outcomes (type, counted, validity, device_id, workload, stack, scenario, number);
CREATE UNIQUE INDEX ix_outcomes_one_result ON outcomes (run_id) WHERE counted AND type = 'result';
CREATE INDEX ix_runs_queue ON runs (sweep_id, position);
CREATE INDEX ix_runs_state ON runs (state);
CREATE INDEX ix_runs_cell_key ON runs (cell_key);
COMMIT;
