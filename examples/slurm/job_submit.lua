-- Beside slurm.conf, with JobSubmitPlugins=lua: the controller asks for every submitted job.
-- A partition or a limit that the user named is kept.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
local loaded, perfmodel = pcall(dofile, folder .. "perfmodel.lua")

local function set(job)
  local nodes = job.min_nodes
  if nodes == nil or nodes == slurm.NO_VAL or nodes < 1 then nodes = 1 end
  local gpus = perfmodel.gpus(job.tres_per_node or job.gres, job.tres_per_job, nodes)
  local partition, minutes = perfmodel.choose(job.comment, job.partition, nodes, gpus)
  if partition == nil then return end
  job.partition = partition
  if minutes ~= nil and (job.time_limit == nil or job.time_limit == slurm.NO_VAL) then
    job.time_limit = minutes
  end
  slurm.log_info("perfmodel: partition %s, limit %s min", partition, tostring(minutes or "as it was"))
end

function slurm_job_submit(job, partitions, user)
  if loaded then
    local went_well, problem = pcall(set, job)
    if not went_well then slurm.log_info("perfmodel: %s", tostring(problem)) end
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
  return slurm.SUCCESS
end

return slurm.SUCCESS
